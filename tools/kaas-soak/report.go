package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"kaas.dev/kaas/internal/substrate"
)

// sample is what a broker process was seen to have.
type sample struct {
	at  time.Duration // since the run began
	rss int64         // bytes
	fds int
}

// samples are those of all processes of a run.
type samples struct {
	sync.Mutex
	all     []sample
	slowest time.Duration // from a start to the first answer
	silent  time.Duration // longest that a partition acknowledged nothing
}

func (s *samples) silence(d time.Duration) {
	s.Lock()
	defer s.Unlock()
	s.silent = max(s.silent, d)
}

func (s *samples) answer(took time.Duration) {
	s.Lock()
	defer s.Unlock()
	s.slowest = max(s.slowest, took)
}

// most are the largest figures of a share of the samples.
func most(of []sample) (m sample) {
	for _, x := range of {
		m.rss, m.fds = max(m.rss, x.rss), max(m.fds, x.fds)
	}
	return m
}

// sample looks at the running process, if there is one.
func (s *soak) sample() {
	pid := s.broker.pid()
	if pid == 0 {
		return
	}
	p, err := procfs.NewProc(pid)
	if err != nil {
		return // it has just been killed
	}
	stat, err := p.Stat()
	if err != nil {
		return
	}
	fds, err := p.FileDescriptorsLen()
	if err != nil {
		return
	}
	s.samples.Lock()
	defer s.samples.Unlock()
	s.samples.all = append(s.samples.all, sample{time.Since(s.began), int64(stat.ResidentMemory()), fds})
}

// line tells where the run has come to.
func (s *soak) line() {
	s.samples.Lock()
	var now sample
	if n := len(s.samples.all); n > 0 {
		now = s.samples.all[n-1]
	}
	s.samples.Unlock()
	fmt.Fprintf(s.out, "%4.0f s  %s  %d kills  %d MB, %d descriptors\n",
		time.Since(s.began).Seconds(), s.progress(), s.count.kills.Load(), now.rss/1e6, now.fds)
}

func (s *soak) progress() string {
	var b strings.Builder
	for _, topic := range []string{logTopic, keysTopic} {
		var acked, start int64
		for _, p := range s.of(topic) {
			a, _, from := p.counts()
			acked, start = acked+a, start+from
		}
		fmt.Fprintf(&b, "%s: %d acknowledged, %d removed by retention; ", topic, acked, start)
	}
	fmt.Fprintf(&b, "%d read at the tail (%d too late), %d in %d readings of all (%d of them went on)",
		s.count.tail.Load(), s.count.skipped.Load(), s.count.swept.Load(), s.count.sweeps.Load(), s.count.readOn.Load())
	return b.String()
}

// summary tells the counts of the whole run, and wants memory and descriptors flat.
func (s *soak) summary() {
	took := time.Since(s.began)
	fmt.Fprintf(s.out, "\n%v: %s\n", took.Round(time.Second), s.progress())
	for _, p := range s.of(logTopic) {
		p.mu.Lock()
		fmt.Fprintf(s.out, "%s/%d: at most %d MB of values above the log start; retention.bytes is %d MB\n", p.topic, p.index, p.mu.held/1e6, retentionBytes/1_000_000)
		p.mu.Unlock()
	}
	s.samples.Lock()
	defer s.samples.Unlock()
	fmt.Fprintf(s.out, "%d kills; an answer at most %v after a start, no partition silent for longer than %v\n",
		s.count.kills.Load(), s.samples.slowest.Round(time.Millisecond), s.samples.silent.Round(10*time.Millisecond))
	third := len(s.samples.all) / 3
	if third < 10 {
		return
	}
	first, last := most(s.samples.all[:third]), most(s.samples.all[2*third:])
	fmt.Fprintf(s.out, "memory at most %d MB in the first third, %d MB in the last; descriptors %d and %d\n", first.rss/1e6, last.rss/1e6, first.fds, last.fds)
	if last.rss > first.rss*3/2+64<<20 {
		s.violate("memory grows: at most %d MB in the first third of the time, %d MB in the last", first.rss/1e6, last.rss/1e6)
	}
	if last.fds > first.fds*3/2+32 {
		s.violate("descriptors grow: at most %d in the first third of the time, %d in the last", first.fds, last.fds)
	}
}

// files tells what is on the volume in the end.
func (s *soak) files() {
	d, err := substrate.OpenDir(s.broker.dir)
	if err != nil {
		s.violate("look at the volume: %v", err)
		return
	}
	counts := map[string]int{}
	countFiles(d, "topics", counts)
	fmt.Fprintf(s.out, "on the volume in the end: %d segments, %d indexes, %d other files of topics\n", counts[".log"], counts[".index"], counts[""])
}

func countFiles(d *substrate.DirFS, dir string, counts map[string]int) {
	entries, err := d.List(dir)
	if err != nil {
		return // removed meanwhile, or a file
	}
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name, ".log"):
			counts[".log"]++
		case strings.HasSuffix(e.Name, ".index"):
			counts[".index"]++
		case e.Dir:
			countFiles(d, dir+"/"+e.Name, counts)
		default:
			counts[""]++
		}
	}
}
