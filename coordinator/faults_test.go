package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"kaas.dev/kaas/partition"
)

// A partition whose volume failed comes back by itself, under a higher epoch, with
// everything it had acknowledged.
func TestFailedPartitionComesBack(t *testing.T) {
	v, f := mount(t, t.TempDir())
	b := start(t, v, options(t))
	topic := create(t, b, "a", 2)
	if _, err := produce(ctx(t, time.Minute), b, topic.ID, "kept"); err != nil {
		t.Fatal(err)
	}
	p := mustPartition(t, b, topic.ID, 0)
	other := mustPartition(t, b, topic.ID, 1)
	f.set(func(op, name string) error {
		if strings.HasPrefix(name, "topics/"+topic.ID.String()+"/0/") && (op == "datasync" || op == "write" || op == "create") {
			return syscall.EIO
		}
		return nil
	})
	_, err := produce(ctx(t, time.Minute), b, topic.ID, "lost")
	wantCode(t, "produce", err, kerr.KafkaStorageError)
	eventually(t, "it is closed", func() bool { _, err := b.Partition(topic.ID, 0); return err != nil })
	if b.Ready() {
		t.Error("ready with a partition that is not served")
	}
	time.Sleep(100 * time.Millisecond) // some tries in vain
	f.heal()
	eventually(t, "it is back", b.Ready)
	q := mustPartition(t, b, topic.ID, 0)
	if q.LeaderEpoch() <= p.LeaderEpoch() || b.View().TopicByID(topic.ID).Partitions[0].Epoch != q.LeaderEpoch() {
		t.Errorf("epoch %d after %d; the view has %d", q.LeaderEpoch(), p.LeaderEpoch(), b.View().TopicByID(topic.ID).Partitions[0].Epoch)
	}
	if got := mustPartition(t, b, topic.ID, 1); got != other {
		t.Error("the partition beside it was disturbed")
	}
	if off, err := produce(ctx(t, time.Minute), b, topic.ID, "new"); err != nil || off < 1 {
		t.Errorf("offset %d, %v", off, err)
	}
}

// An epoch that somebody else holds is passed over. (That of a topic's first partition would
// keep the broker from starting: the stream has not given it out.)
func TestTakenEpochIsDrivenHigher(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	topic := create(t, b, "a", 2)
	stop(t, b)
	v2, _ := mount(t, dir)
	s, err := v2.OpenSession(substrate.Identity{Role: substrate.RoleData})
	if err != nil {
		t.Fatal(err)
	}
	for e := substrate.Epoch(2); e <= 4; e++ { // the next start wants 2
		if _, err := s.Claim(ctx(t, time.Minute), partition.ManifestStream(topic.ID, 1), e); err != nil {
			t.Fatal(err)
		}
		s.EndLead(partition.ManifestStream(topic.ID, 1), true)
	}
	b2 := start(t, v2, options(t))
	eventually(t, "ready", b2.Ready)
	if e := mustPartition(t, b2, topic.ID, 1).LeaderEpoch(); e != 5 {
		t.Errorf("leader epoch %d, want 5", e)
	}
}

// A data session that is sealed while the controller's is not is replaced, and all
// that it served is opened anew.
func TestSealedDataSessionIsReplaced(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	topic := create(t, b, "a", 5)
	old := b.data.Load()
	before := mustPartition(t, b, topic.ID, 3)
	if err := v.Seal(ctx(t, time.Minute), old.s.ID()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another session", func() bool { now := b.data.Load(); return now != nil && now != old })
	eventually(t, "ready", b.Ready)
	if got := mustPartition(t, b, topic.ID, 3); got == before || got.LeaderEpoch() <= before.LeaderEpoch() {
		t.Errorf("partition was not opened anew: epoch %d after %d", got.LeaderEpoch(), before.LeaderEpoch())
	}
	if err := b.CheckFresh(ctx(t, time.Minute)); err != nil {
		t.Error(err)
	}
	if err := b.Fresh(ctx(t, time.Minute), time.Second); err != nil {
		t.Error(err)
	}
	if b.Err() != nil {
		t.Error(b.Err())
	}
	stop(t, b)
}

// A session that may not lead a stream again is replaced too.
func TestSessionThatCannotLeadIsReplaced(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	opt := options(t)
	var failing atomic.Bool
	opt.open = func(c context.Context, s *substrate.Session, id [16]byte, topic string, index, epoch int32, cfg partition.Config) (*partition.Partition, error) {
		if topic == "b" && failing.CompareAndSwap(true, false) {
			return nil, fmt.Errorf("open: %w", substrate.ErrStillLeading)
		}
		return partition.Open(c, s, id, topic, index, epoch, cfg)
	}
	b := start(t, v, opt)
	a := create(t, b, "a", 2)
	old := b.data.Load()
	failing.Store(true)
	create(t, b, "b", 1)
	eventually(t, "ready", b.Ready)
	if b.data.Load() == old {
		t.Error("the session is the same")
	}
	if _, err := produce(ctx(t, time.Minute), b, a.ID, "x"); err != nil {
		t.Error(err)
	}
}

// The cluster stream's epoch is given up when a directory's fsync fails; the broker
// claims the next and what was asked for is done once.
func TestClusterStreamIsClaimedAnew(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	epoch := b.leading().w.Epoch()
	f.set(once(syscall.EIO, func(op, name string) bool {
		return op == "syncdir" && name == b.stream+"/"+substrate.EpochName(epoch)
	}))
	topic := create(t, b, "a", 2)
	if got := b.leading().w.Epoch(); got <= epoch {
		t.Fatalf("epoch %d after %d", got, epoch)
	}
	if got := b.View().Topics(); len(got) != 1 || got[0].ID != topic.ID {
		t.Fatalf("topics are %v", got)
	}
	f.heal()
	if first, _, err := b.AllocateProducerIDs(ctx(t, time.Minute)); err != nil || first != 0 {
		t.Fatalf("producer IDs from %d, %v", first, err)
	}
	stop(t, b)
	v2, _ := mount(t, dir)
	b2 := start(t, v2, options(t))
	eventually(t, "ready", b2.Ready)
	if b2.View().NextProducerID() != 1000 || b2.View().Topic("a") == nil {
		t.Error("the next process sees something else")
	}
}

// A client that goes away leaves the work to the broker.
func TestWorkGoesOnWithoutItsClient(t *testing.T) {
	v, f := mount(t, t.TempDir())
	b := start(t, v, options(t))
	eventually(t, "ready", b.Ready) // what a start publishes is published
	hold, held := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	f.set(func(op, name string) error {
		if op == "rename" && strings.HasSuffix(name, ".snap") && strings.HasPrefix(name, b.stream+"/") && first.CompareAndSwap(false, true) {
			close(held)
			<-hold
		}
		return nil
	})
	c, cancel := context.WithCancel(context.Background())
	go func() { <-held; cancel() }()
	_, err := b.CreateTopic(c, TopicSpec{Name: "a", Partitions: 1}, false)
	wantCode(t, "create", err, kerr.RequestTimedOut)
	if b.View().Topic("a") != nil {
		t.Fatal("shown before it was published")
	}
	close(hold)
	eventually(t, "it is made", func() bool { return b.View().Topic("a") != nil })
	eventually(t, "it is open", b.Ready)
}

// Stop gives up with its context while the volume hangs.
func TestStopOnAHungVolume(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *cluster) {
		b := c.join(1)
		create(t, b.Broker, "a", 3)
		hold := make(chan struct{})
		b.f.set(func(op, name string) error { <-hold; return syscall.EIO })
		began := time.Now()
		err := b.Stop(ctx(t, 200*time.Millisecond))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 300*time.Millisecond {
			t.Errorf("stop took %v: %v", time.Since(began), err)
		}
		select {
		case <-b.Done():
		default:
			t.Error("Done is open")
		}
		close(hold)
		eventually(t, "everything has left", func() bool {
			return waitFor(ctx0(time.Second), &b.wg) == nil
		})
	})
}

// A partition whose manifest is damaged is not served, and hurts nobody else.
func TestDamagedPartitionStandsAlone(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	topic := create(t, b, "a", 3)
	stop(t, b)
	snaps, err := filepath.Glob(filepath.Join(dir, partition.ManifestStream(topic.ID, 1), "*1", "*.snap"))
	if err != nil || len(snaps) == 0 {
		t.Fatalf("no manifest: %v", err)
	}
	for _, name := range snaps {
		if err := os.Truncate(name, 30); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	var mu sync.Mutex
	opt := options(t)
	opt.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	v2, _ := mount(t, dir)
	b2 := start(t, v2, opt)
	eventually(t, "the others are served", func() bool {
		_, err0 := b2.Partition(topic.ID, 0)
		_, err2 := b2.Partition(topic.ID, 2)
		return err0 == nil && err2 == nil
	})
	eventually(t, "the log names the file", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(log.String(), "damaged at byte") && strings.Contains(log.String(), partition.ManifestStream(topic.ID, 1))
	})
	_, err = b2.Partition(topic.ID, 1)
	wantCode(t, "the damaged one", err, kerr.KafkaStorageError)
	eventually(t, "readiness tells of the damaged one alone", func() bool {
		err := b2.NotReady()
		return err != nil && strings.HasPrefix(err.Error(), "1 partitions are offline, 0 still being opened: a-1: open")
	})
	stop(t, b2)
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
