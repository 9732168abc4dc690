package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/child"
)

// soak is one run.
type soak struct {
	plan   plan
	out    io.Writer
	broker *broker
	admin  *kadm.Client
	parts  []*part
	began  time.Time
	ctx    context.Context // ends with the first violation
	cancel context.CancelCauseFunc

	count struct {
		tail, sweeps, swept atomic.Int64 // records and readings of all
		skipped             atomic.Int64 // offsets that retention took before the reader at the tail came
		readOn              atomic.Int64 // times that a reading of all had to go on beyond its end
		kills               atomic.Int64
	}
	samples samples
	story   struct {
		sync.Mutex
		lines []string // the last things that happened
	}
}

// storyLines is how many events a violation is told with.
const storyLines = 8

// tell notes an event.
func (s *soak) tell(format string, a ...any) {
	s.story.Lock()
	defer s.story.Unlock()
	line := fmt.Sprintf("%8.3f s  ", time.Since(s.began).Seconds()) + fmt.Sprintf(format, a...)
	s.story.lines = append(s.story.lines, line)
	if n := len(s.story.lines); n > storyLines {
		s.story.lines = s.story.lines[n-storyLines:]
	}
}

// errViolation is why a run was stopped.
var errViolation = errors.New("violation")

// violate stops the run; the first call counts.
func (s *soak) violate(format string, a ...any) {
	if s.ctx.Err() == nil {
		s.tell("VIOLATION: "+format, a...)
	}
	s.cancel(fmt.Errorf("%w: %s", errViolation, fmt.Sprintf(format, a...)))
}

func (s *soak) of(topic string) (out []*part) {
	for _, p := range s.parts {
		if p.topic == topic {
			out = append(out, p)
		}
	}
	return out
}

func (s *soak) part(topic string, index int32) *part {
	for _, p := range s.parts {
		if p.topic == topic && p.index == index {
			return p
		}
	}
	panic("a record of a partition that was not asked for: " + topic)
}

// run does a whole run and returns what was wrong.
func run(ctx context.Context, p plan, out io.Writer) (err error) {
	parent, err := substrate.MakeDir(p.dir)
	if err != nil {
		return err
	}
	name := "run-" + strconv.Itoa(os.Getpid())
	if err := parent.Mkdir(name); err != nil {
		return fmt.Errorf("directory of this run: %w", err)
	}
	dir := filepath.Join(parent.Root(), name)
	s := &soak{plan: p, out: out, broker: &broker{bin: p.broker, dir: filepath.Join(dir, "data")}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	defer s.cancel(nil)
	if s.broker.bin == "" {
		s.broker.bin = filepath.Join(dir, "kaas")
		if err := child.Build(ctx, s.broker.bin); err != nil {
			return err
		}
	}
	s.began = time.Now()
	if err := s.whole(ctx); err != nil {
		fmt.Fprintf(out, "The volume is left in %s.\n", dir)
		return err
	}
	if p.keep {
		return nil
	}
	return (&substrate.Volume{FS: parent}).RemoveTree(name)
}

// whole runs the broker and all that uses it.
func (s *soak) whole(ctx context.Context) (err error) {
	if s.broker.addr, err = child.FreeAddr(); err != nil {
		return err
	}
	defer s.broker.end(syscall.SIGKILL, time.Second)
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.makeTopics(ctx); err != nil {
		return err
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker.addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	s.admin = kadm.NewClient(cl)
	for _, topic := range []string{logTopic, keysTopic} {
		for i := range s.plan.partitions {
			s.parts = append(s.parts, newPart(topic, i))
		}
	}
	s.load(ctx)
	if s.ctx.Err() == nil {
		s.finish()
	}
	s.summary()
	if s.ctx.Err() != nil {
		s.story.Lock()
		defer s.story.Unlock()
		fmt.Fprintf(s.out, "What happened last:\n%s\nThe broker said last:\n%s\n", strings.Join(s.story.lines, "\n"), s.broker.said())
		return context.Cause(s.ctx)
	}
	return nil
}

// load writes, reads, kills and watches for the time of the run.
func (s *soak) load(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.plan.duration)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	var reading, writing sync.WaitGroup
	reads, stopReads := context.WithCancel(s.ctx)
	defer stopReads()
	must := func(err error) {
		if err != nil && s.ctx.Err() == nil {
			s.violate("%v", err)
		}
	}
	for _, p := range s.parts {
		writing.Go(func() { must(s.write(ctx, p)) })
		reading.Go(func() { // one reading after the other
			for reads.Err() == nil {
				must(s.sweep(reads, p))
				sleep.For(reads, time.Second)
			}
		})
	}
	reading.Go(func() { must(s.readTail(reads)) })
	reading.Go(func() { s.watchStarts(reads) })
	reading.Go(func() { s.watchProgress(ctx) })
	reading.Go(func() { every(ctx, 500*time.Millisecond, s.sample) })
	reading.Go(func() { every(ctx, time.Minute, s.line) })
	if s.plan.kill > 0 {
		every(ctx, s.plan.kill, func() { must(s.restart()) })
	}
	<-ctx.Done()
	writing.Wait()
	stopReads()
	reading.Wait()
}

// finish reads all once more from a broker that was stopped well and started again.
func (s *soak) finish() {
	if state := s.broker.end(syscall.SIGTERM, time.Minute); state != "exit status 0" {
		s.violate("after SIGTERM the broker ended with %s", state)
		return
	}
	if err := s.start(s.ctx); err != nil {
		s.violate("%v", err)
		return
	}
	together(s.parts, func(p *part) {
		if err := s.sweep(s.ctx, p); err != nil {
			s.violate("%v", err)
		}
	})
	s.files()
}

// restart is kill -9 and a start.
func (s *soak) restart() error {
	s.tell("kill -9")
	s.broker.end(syscall.SIGKILL, 10*time.Second)
	s.count.kills.Add(1)
	return s.start(s.ctx)
}

func (s *soak) start(ctx context.Context) error {
	took, err := s.broker.start(ctx, func(state string) { s.violate("the broker ended by itself: %s", state) })
	if err != nil {
		return err
	}
	s.samples.answer(took)
	s.tell("started; it answers after %v", took.Round(time.Millisecond))
	return nil
}
