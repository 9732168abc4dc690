package coordinator

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

func TestStartStopStart(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	topic := create(t, b, "orders", 3)
	for i := range 3 {
		if off, err := produce(ctx(t, time.Minute), b, topic.ID, "x"); err != nil || off != int64(i) {
			t.Fatalf("offset %d, %v; want %d", off, err, i)
		}
	}
	eventually(t, "ready", b.Ready)
	stop(t, b)
	select {
	case <-b.Done():
	default:
		t.Fatal("Done is open after Stop")
	}
	if err := b.Err(); err != nil {
		t.Fatalf("ended with %v", err)
	}
	_, err := b.CreateTopic(ctx(t, time.Minute), TopicSpec{Name: "late", Partitions: 1}, false)
	wantCode(t, "create after stop", err, kerr.NotController)
	_, _, err = b.AllocateProducerIDs(ctx(t, time.Minute))
	wantCode(t, "producer IDs after stop", err, kerr.NotController)
	wantCode(t, "Fresh after stop", b.Fresh(ctx(t, time.Minute), time.Hour), kerr.NotLeaderForPartition)

	v2, _ := mount(t, dir)
	b2 := start(t, v2, options(t))
	eventually(t, "ready again", b2.Ready)
	got := b2.View().Topic("orders")
	if got == nil || got.ID != topic.ID || len(got.Partitions) != 3 || got.Partitions[2].Epoch <= topic.Partitions[2].Epoch {
		t.Fatalf("topic is %+v", got)
	}
	if _, hw, _ := mustPartition(t, b2, topic.ID, 0).Offsets(); hw != 3 {
		t.Fatalf("high watermark %d, want 3", hw)
	}
	me, ok := b2.View().Broker(1)
	if !ok || me.Epoch != 2 || me.Listeners[0].Port != 9092 {
		t.Fatalf("broker is %+v", me)
	}
}

// Everything was closed, so nobody had to be sealed.
func TestStopLeavesNothingToSeal(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	create(t, b, "a", 2)
	eventually(t, "ready", b.Ready) // what is being opened is left as it is
	stop(t, b)
	v2, _ := mount(t, dir)
	b2 := start(t, v2, options(t))
	eventually(t, "ready", b2.Ready)
	for _, s := range b.sessions() {
		if ok, err := v2.Unsealed(s.ID()); err != nil || !ok {
			t.Errorf("session %s was sealed: %v, %v", s.ID(), ok, err)
		}
	}
}

// Nothing is waited for but the volume.
func TestStopIsQuick(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		b := c.join(1).Broker
		create(t, b, "wide", 100)
		began := time.Now()
		stop(t, b)
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("stop with 100 partitions took %v", d)
		}
	})
}

func TestStartAfterKillWaitsForNobody(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		long := func(o *Options) {
			o.LeaseDuration, o.RenewDeadline, o.SessionTimeout, o.StartGrace = time.Hour, time.Minute, time.Hour, time.Hour
		}
		a := c.join(1, long)
		topic := create(t, a.Broker, "a", 4)
		if _, err := produce(ctx(t, time.Minute), a.Broker, topic.ID, "x"); err != nil {
			t.Fatal(err)
		}
		c.kill(a)
		began := time.Now()
		b := c.join(1, long)
		eventually(t, "ready", b.Ready)
		if d := time.Since(began); d > time.Second {
			t.Errorf("it took %v", d)
		}
		if _, hw, _ := mustPartition(t, b.Broker, topic.ID, 0).Offsets(); hw != 1 {
			t.Errorf("high watermark %d, want 1", hw)
		}
	})
}

// Z-04: two processes with one identity on one directory.
func TestNewcomerFencesTheOlder(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	a := start(t, v, options(t))
	topic := create(t, a, "a", 1)

	var mu sync.Mutex
	taken := map[int64]int{} // how often an offset was acknowledged
	quit := make(chan struct{})
	var acked atomic.Int64
	writer := func(b *Broker) {
		for {
			select {
			case <-quit:
				return
			default:
			}
			if off, err := produce(ctx0(time.Minute), b, topic.ID, "x"); err == nil {
				mu.Lock()
				taken[off]++
				mu.Unlock()
				acked.Add(1)
			} else {
				time.Sleep(time.Millisecond)
			}
		}
	}
	done := make(chan struct{})
	go func() { defer close(done); together(2, func(int) { writer(a) }) }()
	eventually(t, "the first acknowledges", func() bool { return acked.Load() > 20 })

	v2, _ := mount(t, dir)
	b := start(t, v2, options(t))
	done2 := make(chan struct{})
	go func() { defer close(done2); together(2, func(int) { writer(b) }) }()
	select {
	case <-a.Done():
	case <-time.After(time.Minute):
		t.Fatal("the older process goes on")
	}
	if !errors.Is(a.Err(), substrate.ErrFenced) {
		t.Fatalf("the older process ended with %v", a.Err())
	}
	eventually(t, "ready", b.Ready)
	n := acked.Load()
	eventually(t, "the second acknowledges", func() bool { return acked.Load() > n+20 })
	close(quit)
	<-done
	<-done2
	_, hw, _ := mustPartition(t, b, topic.ID, 0).Offsets()
	for off, k := range taken {
		if k > 1 || off >= hw {
			t.Fatalf("offset %d was acknowledged %d times; the high watermark is %d", off, k, hw)
		}
	}
	if _, err := a.Partition(topic.ID, 0); err == nil {
		t.Error("the older process still serves the partition")
	}
	wantCode(t, "CheckFresh of the older", a.CheckFresh(ctx(t, time.Minute)), kerr.NotLeaderForPartition)
	_, err := a.CreateTopic(ctx(t, time.Minute), TopicSpec{Name: "b", Partitions: 1}, false)
	wantCode(t, "create on the older", err, kerr.NotController)
	if err := b.CheckFresh(ctx(t, time.Minute)); err != nil {
		t.Errorf("CheckFresh of the newcomer: %v", err)
	}
}

// An idle process notices too, at its next look.
func TestIdleProcessNoticesItsFence(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		a := c.join(1)
		c.join(1)
		began := time.Now()
		select {
		case <-a.Done():
		case <-time.After(time.Minute):
			t.Fatal("it goes on")
		}
		if d := time.Since(began); d > a.opt.CheckInterval {
			t.Errorf("it went on for %v", d)
		}
		if !errors.Is(a.Err(), substrate.ErrFenced) {
			t.Fatalf("ended with %v", a.Err())
		}
		stop(t, a.Broker)
	})
}

func TestManyNewcomersLeaveOne(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir)
	brokers := make([]*Broker, 4)
	together(len(brokers), func(i int) {
		d, _ := substrate.OpenDir(dir)
		v, err := substrate.OpenVolume(d, "")
		if err != nil {
			t.Error(err)
			return
		}
		b, err := Start(ctx0(time.Minute), v, options(t))
		if err != nil && !errors.Is(err, substrate.ErrFenced) {
			t.Errorf("start: %v", err)
		}
		brokers[i] = b
	})
	t.Cleanup(func() {
		for _, b := range brokers {
			if b != nil {
				_ = b.Stop(ctx0(time.Minute))
			}
		}
	})
	eventually(t, "all but at most one have ended", func() bool {
		living := 0
		for _, b := range brokers {
			if b != nil && b.run.Err() == nil {
				living++
			}
		}
		return living <= 1
	})
}

// T-06: across kills no producer ID is seen twice.
func TestProducerIDsAreNeverReused(t *testing.T) {
	dir := t.TempDir()
	seen := map[int64]bool{}
	for range 5 {
		v, f := mount(t, dir)
		b := start(t, v, options(t))
		firsts := make([]int64, 4)
		together(len(firsts), func(i int) {
			first, n, err := b.AllocateProducerIDs(ctx0(time.Minute))
			if err != nil || n != 1000 {
				t.Errorf("block of %d: %v", n, err)
			}
			firsts[i] = first
		})
		for _, first := range firsts {
			if seen[first/1000] || first%1000 != 0 {
				t.Fatalf("block %d was handed out before", first)
			}
			seen[first/1000] = true
		}
		kill(t, b, f)
	}
}

func TestStartOnASickVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		ops  string
		want string
	}{
		"read-only": {syscall.EROFS, "mkdir create rename write", "read-only file system"},
		"denied":    {syscall.EACCES, "mkdir create rename", "permission denied"},
		"full":      {syscall.ENOSPC, "mkdir create write", "no space left on device"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v, f := mount(t, dir)
			before := tree(t, dir)
			f.set(func(op, path string) error {
				if strings.Contains(tc.ops, op) {
					return &os.PathError{Op: op, Path: filepath.Join(dir, path), Err: tc.err}
				}
				return nil
			})
			_, err := Start(ctx(t, time.Minute), v, options(t))
			if err == nil || !errors.Is(err, tc.err) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("start: %v", err)
			}
			if after := tree(t, dir); !maps.Equal(before, after) {
				t.Errorf("the tree changed: %v", after)
			}
		})
	}
}

func TestLostMetadataIsNotBegunAnew(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	topic := create(t, b, "a", 1)
	stop(t, b)
	if err := os.RemoveAll(filepath.Join(dir, "meta")); err != nil {
		t.Fatal(err)
	}
	v2, _ := mount(t, dir)
	_, err := Start(ctx(t, time.Minute), v2, options(t))
	if err == nil || !strings.Contains(err.Error(), topic.ID.String()) {
		t.Fatalf("start over topics without metadata: %v", err)
	}
}

func TestViewGoesForwardOnly(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var last int64
		var topics int
		for {
			c := b.View()
			if c.NextProducerID() < last || len(c.Topics()) < topics {
				t.Errorf("the view went from %d, %d topics to %d, %d", last, topics, c.NextProducerID(), len(c.Topics()))
				return
			}
			last, topics = c.NextProducerID(), len(c.Topics())
			select {
			case <-quit:
				return
			default:
			}
		}
	}()
	together(8, func(i int) {
		_, _, _ = b.AllocateProducerIDs(ctx0(time.Minute))
		if _, err := b.CreateTopic(ctx0(time.Minute), TopicSpec{Name: fmt.Sprintf("t%d", i), Partitions: 1}, false); err != nil {
			t.Errorf("create: %v", err)
		}
	})
	close(quit)
	<-done
}
