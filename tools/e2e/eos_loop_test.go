package e2e

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	eosCopiers  = 2                // processes of a loop
	eosSession  = 6 * time.Second  // of their consumers
	eosTimeout  = 8 * time.Second  // of their transactions
	zombieFor   = 10 * time.Second // it stands still at least; its group and its coordinator are done with it then
	mostZombies = 8                // where none is turned away
)

// eosTimeouts are those of transactions, by the place of a process. The coordinator of
// transactions is done with a zombie of the one place, and only its group with one of the other.
var eosTimeouts = [eosCopiers]time.Duration{8 * time.Second, 30 * time.Second}

// eosLoop is a topic, a copy of it, and the processes that copy, of one make.
type eosLoop struct {
	name string
	copierKind
	t      *testing.T
	client func(...kgo.Opt) *kgo.Client
	addr   string
	sent   [eosParts]atomic.Int64
	seen   copied // by a reader that follows the copy

	keepers sync.WaitGroup
	mu      struct {
		sync.Mutex
		now    [eosCopiers]*copierProcess // who has each place
		all    []*copierProcess
		halted bool
	}

	zombies, fenced, refused, ended atomic.Int64
}

func (l *eosLoop) in() string    { return l.name + "-source" }
func (l *eosLoop) out() string   { return l.name + "-copy" }
func (l *eosLoop) group() string { return l.name + "-group" }

// flags are those of the copiers that are in Go.
func (l *eosLoop) flags(id string, timeout time.Duration) []string {
	return []string{"-bootstrap", l.addr, "-group", l.group(), "-in", l.in(), "-out", l.out(), "-id", id, "-timeout", timeout.String()}
}

func (l *eosLoop) soFar() (n [eosParts]int) {
	for p := range l.sent {
		n[p] = int(l.sent[p].Load())
	}
	return n
}

// produce sends numbers to every partition of the source, until ctx ends.
func (l *eosLoop) produce(ctx context.Context) {
	cl := l.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for wait(ctx, 20*time.Millisecond) {
		for p := range l.sent {
			n := l.sent[p].Add(1) - 1
			cl.Produce(context.Background(), &kgo.Record{Topic: l.in(), Partition: int32(p), Value: []byte(strconv.FormatInt(n, 10))}, func(_ *kgo.Record, err error) {
				if err != nil {
					l.t.Errorf("a record of %s: %v", l.in(), err)
				}
			})
		}
	}
	flush, cancel := context.WithTimeout(context.Background(), eosPatience)
	defer cancel()
	if err := cl.Flush(flush); err != nil {
		l.t.Errorf("the records of %s: %v", l.in(), err)
	}
}

// begin starts a process at a place, unless it is over; nil says that.
func (l *eosLoop) begin(place int) *copierProcess {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.halted {
		return nil
	}
	id := fmt.Sprintf("%s-%d", l.name, place)
	c := &copierProcess{id: id, kind: &l.copierKind, cmd: l.command(l, id, eosTimeouts[place])}
	if err := c.start(); err != nil {
		l.t.Error(err)
		return nil
	}
	l.mu.now[place] = c
	l.mu.all = append(l.mu.all, c)
	return c
}

// keep has a process at a place, and another when that has ended, until all are to end or
// another has its ID.
func (l *eosLoop) keep(place int) {
	for c := l.begin(place); c != nil; c = l.begin(place) {
		<-c.done
		switch {
		case c.is(&c.asked), c.is(&c.replaced):
			return
		case l.lives || !c.endedWell():
			l.t.Errorf("%s ended by itself: %v\n%s", c.id, c.cmd.ProcessState, c.lastWords())
		default:
			l.t.Logf("%s is started again: %s", c.id, tail([]byte(c.lastWords()), 300))
		}
		l.ended.Add(1)
		wait(l.t.Context(), 200*time.Millisecond)
	}
}

func (l *eosLoop) start() {
	for place := range eosCopiers {
		l.keepers.Go(func() { l.keep(place) })
	}
	l.t.Cleanup(func() { // if the test has failed
		for _, c := range l.last() {
			c.set(&c.asked)
			c.signal(syscall.SIGKILL)
			<-c.done
		}
		l.keepers.Wait()
	})
}

// last has no process begun any more, and tells all that were.
func (l *eosLoop) last() []*copierProcess {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.halted = true
	return l.mu.all
}

// halt ends all processes.
func (l *eosLoop) halt() {
	for _, c := range l.last() {
		if !c.is(&c.over) {
			c.end(l.t)
			if !c.endedWell() {
				l.t.Errorf("%s ended with %v\n%s", c.id, c.cmd.ProcessState, c.lastWords())
			}
		}
	}
	l.keepers.Wait()
}

// at is who has a place.
func (l *eosLoop) at(place int) *copierProcess {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.now[place]
}

// haunt makes one process after the other a zombie, until ctx ends, and a few times more if none
// of them has been turned away: it may have had nothing at that moment. Half of them are replaced
// by one with the same ID meanwhile, where that can be.
func (l *eosLoop) haunt(ctx context.Context) {
	for n := 0; wait(ctx, 3*time.Second) || n < mostZombies && !l.t.Failed() && !l.turnedOneAway(); n++ {
		l.zombie(n%eosCopiers, l.ids && (n%4 == 0 || n%4 == 3))
	}
}

// turnedOneAway reports that a zombie was fenced; by its group alone where no other can have its
// ID.
func (l *eosLoop) turnedOneAway() bool {
	return l.fenced.Load() > 0 || !l.ids && l.refused.Load() > 0
}

// zombie has a process stand still until others have all it had, and go on. That all goes well
// is awaited before, or it would have nothing.
func (l *eosLoop) zombie(place int, replace bool) {
	l.awaitPast(l.soFar(), "before a zombie")
	z := l.at(place)
	z.signal(syscall.SIGSTOP)
	defer z.signal(syscall.SIGCONT)
	z.lately()
	select {
	case <-z.news:
	default:
	}
	began, had := time.Now(), l.soFar()
	switch {
	case z.is(&z.over), replace && !z.replace():
		return // another is about to be started in its place
	case replace:
		l.keepers.Go(func() { l.keep(place) })
	}
	wait(l.t.Context(), zombieFor)
	if eosTimeouts[place] < zombieFor || replace {
		if !l.awaitPast(had, z.id+" stands still") {
			return
		}
	} else if !l.awaitAlone(z.id + " stands still") { // its transaction is in the way of who reads
		return
	}
	l.zombies.Add(1)
	l.t.Logf("%s goes on after %v (replaced: %t)", z.id, time.Since(began).Round(time.Millisecond), replace)
	z.signal(syscall.SIGCONT)
	l.turnedAway(z, replace)
}

// awaitPast waits until every partition has more copied than it had.
func (l *eosLoop) awaitPast(had [eosParts]int, when string) bool {
	l.t.Helper()
	return l.await(func(context.Context) bool { return l.seen.past(had) }, func() {
		l.t.Errorf("%s: nobody goes on within %v: %v is copied, and there was %v", when, eosPatience, l.seen.progress(), had)
	})
}

// awaitAlone waits until there is one member less than there are processes, and that has all.
func (l *eosLoop) awaitAlone(when string) bool {
	l.t.Helper()
	adm, was := kadm.NewClient(l.client()), ""
	return l.await(func(ctx context.Context) bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		gs, err := adm.DescribeGroups(ctx, l.group())
		g := gs[l.group()]
		was = fmt.Sprintf("%d members, %s, %v, %v", len(g.Members), g.State, g.Err, err)
		return err == nil && g.Err == nil && g.State == "Stable" && len(g.Members) == eosCopiers-1
	}, func() { l.t.Errorf("%s: its group has not put it out within %v: %s", when, eosPatience, was) })
}

func (l *eosLoop) await(ok func(context.Context) bool, otherwise func()) bool {
	late, cancel := context.WithTimeout(l.t.Context(), eosPatience)
	defer cancel()
	for !ok(late) {
		if l.seen.isWrong() {
			return false
		}
		if !wait(late, 50*time.Millisecond) {
			otherwise()
			return false
		}
	}
	return true
}

// turnedAway waits for what a zombie is told. If it has been replaced it is to end, because it
// is told so, or because the broker is away just then.
func (l *eosLoop) turnedAway(z *copierProcess, replaced bool) {
	most := 10 * time.Second
	if replaced {
		most = eosPatience
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), most)
	defer cancel()
	z.heard(ctx)
	if replaced {
		select {
		case <-z.done:
		case <-ctx.Done():
		}
	}
	fenced, refused := z.lately()
	switch {
	case fenced != "":
		l.fenced.Add(1)
		l.t.Logf("%s is a zombie: %.300s", z.id, fenced)
	case replaced && !z.is(&z.over):
		l.t.Errorf("%s was replaced and is not told so:\n%s", z.id, z.lastWords())
	case refused != "":
		l.refused.Add(1)
		l.t.Logf("%s is no member: %.300s", z.id, refused)
	default:
		l.t.Logf("%s goes on as if nothing had been, or has ended (%t)", z.id, z.is(&z.over))
	}
}
