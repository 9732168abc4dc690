package txnshard

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// scene runs f with a world without faults, whose first owner has the shard open.
func scene(t *testing.T, f func(ctx context.Context, t *testing.T, w *world, sh *Shard, fs func() substrate.FS)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.healthy.Store(true)
		sim := nfssim.New(nfssim.Config{Seed: 1})
		defer sim.Stop()
		var done atomic.Bool
		go func() {
			defer done.Store(true)
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			defer func() {
				w.mu.Lock()
				all := w.shards
				w.mu.Unlock()
				for _, sh := range all {
					_ = sh.Abandon(ctx)
				}
			}()
			sh, err := w.open(ctx, sim.Host("a").FS())
			if err != nil {
				t.Error(err)
				return
			}
			f(ctx, t, w, sh, func() substrate.FS { return sim.Host("b").FS() })
		}()
		if err := sim.Run(done.Load); err != nil {
			t.Fatal(err, sim.Trace())
		}
	})
}

func begin(ctx context.Context, t *testing.T, sh *Shard, id string) Producer {
	t.Helper()
	p, err := sh.InitProducerID(ctx, id, 60_000, nobody)
	if err != nil {
		t.Errorf("InitProducerID of %s: %v", id, err)
	}
	return p
}

// write makes a place part of the producer's transaction and writes a record there.
func (w *world) write(ctx context.Context, t *testing.T, sh *Shard, id string, p Producer, at place) {
	t.Helper()
	a := Add{ID: id, Producer: p}
	if at.groups {
		a.Groups = []int32{at.shard}
	} else {
		a.Partitions = []txns.Partition{at.part}
	}
	if err := sh.Add(ctx, a); err != nil {
		t.Errorf("add %v: %v", at, err)
	}
	if err := w.append(at, p, 1, w.guard(at, p.ID)); err != nil {
		t.Errorf("append to %v: %v", at, err)
	}
}

func await(ctx context.Context, t *testing.T, what string, f func() bool) {
	t.Helper()
	for !f() {
		if !sleep.For(ctx, 10*time.Millisecond) {
			t.Errorf("%s does not come", what)
			return
		}
	}
}

func awaitState(ctx context.Context, t *testing.T, sh *Shard, id string, want txns.State) {
	t.Helper()
	c, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	await(c, t, want.String(), func() bool { x := sh.txn(id); return x != nil && x.State == want })
}

// markers are the outcomes that a place's log has.
func (w *world) markersAt(at place) (out []bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.logs[at] == nil {
		return nil
	}
	for _, r := range w.logs[at].records {
		if r.marker {
			out = append(out, r.commit)
		}
	}
	return out
}

func check(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestCommitReachesEveryPart(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		p := begin(ctx, t, sh, "x")
		all := []place{partPlace(1, 0), partPlace(1, 2), partPlace(2, 1), groupPlace(1)}
		for _, at := range all {
			w.write(ctx, t, sh, "x", p, at)
		}
		next, err := sh.End(ctx, "x", p, true, 2)
		if err != nil || next != (Producer{p.ID, p.Epoch + 1}) {
			t.Errorf("end: %+v, %v", next, err)
		}
		awaitState(ctx, t, sh, "x", txns.CompleteCommit)
		for _, at := range all {
			if got := w.markersAt(at); !slices.Equal(got, []bool{true}) {
				t.Errorf("%v has markers %v", at, got)
			}
		}
		again, err := sh.End(ctx, "x", p, true, 2)
		if err != nil || again != next {
			t.Errorf("asked again: %+v, %v, want %+v", again, err, next)
		}
		_, err = sh.End(ctx, "x", p, false, 2)
		check(t, "the other end", err, kerr.InvalidTxnState)
		w.write(ctx, t, sh, "x", next, all[0])
		if _, err := sh.End(ctx, "x", next, false, 2); err != nil {
			t.Error(err)
		}
		awaitState(ctx, t, sh, "x", txns.CompleteAbort)
		if got := w.markersAt(all[0]); !slices.Equal(got, []bool{true, false}) {
			t.Errorf("markers %v", got)
		}
	})
}

// Whose transaction is open is fenced everywhere before the newcomer has its answer.
func TestNewcomerFencesAndAborts(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		old := begin(ctx, t, sh, "x")
		w.write(ctx, t, sh, "x", old, partPlace(1, 0))
		p := begin(ctx, t, sh, "x")
		if p.ID != old.ID || p.Epoch != old.Epoch+2 {
			t.Errorf("%+v after %+v", p, old)
		}
		if got := w.markersAt(partPlace(1, 0)); !slices.Equal(got, []bool{false}) {
			t.Errorf("markers %v", got)
		}
		if e, _ := w.view.Load().FencedEpoch(p.ID); e != p.Epoch {
			t.Errorf("fenced below %d, want %d", e, p.Epoch)
		}
		check(t, "write elsewhere", w.append(partPlace(2, 2), old, 1, w.guard(partPlace(2, 2), old.ID)), kerr.InvalidProducerEpoch)
		check(t, "add", sh.Add(ctx, Add{ID: "x", Producer: old, Groups: []int32{0}}), kerr.ProducerFenced)
		_, err := sh.End(ctx, "x", old, true, 2)
		check(t, "end", err, kerr.ProducerFenced)
		_, err = sh.InitProducerID(ctx, "x", 1000, old)
		check(t, "goes on", err, kerr.ProducerFenced)
		_, err = sh.Verify(ctx, Add{ID: "x", Producer: old, Groups: []int32{0}})
		check(t, "verify", err, kerr.ProducerFenced)
	})
}

// With no controller a newcomer waits; what it gets in the end is fenced.
func TestNoAnswerWithoutFence(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		begin(ctx, t, sh, "x")
		fence := sh.opt.Fence
		sh.opt.Fence = func(context.Context, int64, int16) error { return errNoController }
		_, err := sh.InitProducerID(ctx, "x", 1000, nobody)
		check(t, "without a controller", err, kerr.CoordinatorNotAvailable)
		sh.opt.Fence = fence
		p := begin(ctx, t, sh, "x")
		if e, _ := w.view.Load().FencedEpoch(p.ID); e != p.Epoch {
			t.Errorf("fenced below %d, want %d", e, p.Epoch)
		}
	})
}

// An ID whose epochs are used up is fenced for good, also when the first try could not.
func TestRotationFencesTheOldID(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		old := begin(ctx, t, sh, "x")
		if _, err := sh.change(ctx, "test", "x", func(x *txns.Txn, _, now int64) (*txns.Txn, error) {
			n := changed(x, now)
			n.Epoch = lastEpoch
			return n, nil
		}); err != nil {
			t.Error(err)
		}
		fence := sh.opt.Fence
		sh.opt.Fence = func(context.Context, int64, int16) error { return errNoController }
		_, err := sh.InitProducerID(ctx, "x", 1000, nobody)
		check(t, "without a controller", err, kerr.CoordinatorNotAvailable)
		sh.opt.Fence = fence
		p := begin(ctx, t, sh, "x")
		if p.ID == old.ID {
			t.Errorf("%+v has no new ID", p)
		}
		if e, _ := w.view.Load().FencedEpoch(old.ID); e != maxEpoch {
			t.Errorf("the old ID is fenced below %d", e)
		}
	})
}

// A new owner goes on where the last one died, and whoever comes late from it is refused.
func TestNewOwnerEndsWhatIsDecided(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, fs func() substrate.FS) {
		w.tell(&projections.PartitionLeaderChanged{TopicID: topicID(1), Partition: 0, Leader: projections.NoLeader, Epoch: 2})
		p := begin(ctx, t, sh, "x")
		w.write(ctx, t, sh, "x", p, partPlace(1, 0))
		w.write(ctx, t, sh, "x", p, partPlace(1, 1))
		next, err := sh.End(ctx, "x", p, true, 2)
		if err != nil {
			t.Error(err)
		}
		await(ctx, t, "one marker", func() bool { return len(w.markersAt(partPlace(1, 1))) == 1 })
		check(t, "add", sh.Add(ctx, Add{ID: "x", Producer: next, Groups: []int32{0}}), kerr.ConcurrentTransactions)
		b, err := w.open(ctx, fs())
		if err != nil {
			t.Error(err)
			return
		}
		if err := sh.Add(ctx, Add{ID: "x", Producer: next, Groups: []int32{0}}); !retriable(err) {
			t.Errorf("the former owner: %v", err)
		}
		if _, err := sh.Verify(ctx, Add{ID: "x", Producer: p, Partitions: []txns.Partition{part(1, 0)}}); !errors.Is(err, kerr.NotCoordinator) {
			t.Errorf("the former owner verifies: %v", err)
		}
		sleep.For(ctx, 10*time.Second)
		if x := b.txn("x"); x.State != txns.PrepareCommit {
			t.Errorf("%v, though a part has no leader", x.State)
		}
		w.tell(&projections.PartitionLeaderChanged{TopicID: topicID(1), Partition: 0, Leader: 2, Epoch: 3})
		awaitState(ctx, t, b, "x", txns.CompleteCommit)
		if got := w.markersAt(partPlace(1, 0)); !slices.Equal(got, []bool{true}) {
			t.Errorf("markers %v", got)
		}
		if again, err := b.End(ctx, "x", p, true, 2); err != nil || again != next {
			t.Errorf("asked again: %+v, %v", again, err)
		}
	})
}

func TestHandoverNeedsNoSeal(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, fs func() substrate.FS) {
		p := begin(ctx, t, sh, "x")
		if err := sh.Relinquish(ctx); err != nil {
			t.Error(err)
		}
		if err := sh.opt.Check(ctx); err != nil {
			t.Errorf("the session is lost: %v", err)
		}
		b, err := w.open(ctx, fs())
		if err != nil {
			t.Error(err)
			return
		}
		_, err = sh.Describe(ctx, "x")
		check(t, "the former owner", err, kerr.NotCoordinator)
		if x, err := b.Describe(ctx, "x"); err != nil || current(x) != p {
			t.Errorf("%+v, %v", x, err)
		}
		if err := sh.opt.Check(ctx); err != nil {
			t.Errorf("the session was sealed: %v", err)
		}
	})
}

func TestTimeoutAbortsAndFences(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		p, err := sh.InitProducerID(ctx, "x", 5000, nobody)
		if err != nil {
			t.Error(err)
		}
		w.write(ctx, t, sh, "x", p, partPlace(1, 0))
		began := time.Now()
		sleep.For(ctx, 4*time.Second)
		if x := sh.txn("x"); x.State != txns.Ongoing {
			t.Errorf("%v before its time", x.State)
		}
		awaitState(ctx, t, sh, "x", txns.CompleteAbort)
		if d := time.Since(began); d > 5*time.Second+2*sh.opt.AbortEvery {
			t.Errorf("aborted after %v", d)
		}
		if e, _ := w.view.Load().FencedEpoch(p.ID); e != p.Epoch+1 {
			t.Errorf("fenced below %d", e)
		}
		_, err = sh.End(ctx, "x", p, true, 2)
		check(t, "late commit", err, kerr.InvalidTxnState)
	})
}

// K-03: a clock that steps ends nothing.
func TestClockStepsEndNothing(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		p := begin(ctx, t, sh, "x")
		w.write(ctx, t, sh, "x", p, partPlace(1, 0))
		sh.opt.Now = func() time.Time { return time.Now().Add(time.Hour) }
		sleep.For(ctx, 10*time.Second)
		if x := sh.txn("x"); x.State != txns.Ongoing {
			t.Errorf("%v", x.State)
		}
	})
}

func TestDeletedTopicNeedsNoMarker(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		p := begin(ctx, t, sh, "x")
		w.write(ctx, t, sh, "x", p, partPlace(1, 0))
		w.write(ctx, t, sh, "x", p, partPlace(2, 0))
		// The view does not show the topic, and nobody can say yet whether it is deleted.
		w.tell(&projections.TopicDeleted{ID: topicID(1)}, &projections.TopicRemoved{ID: topicID(1)})
		if _, err := sh.End(ctx, "x", p, true, 2); err != nil {
			t.Error(err)
		}
		sleep.For(ctx, 10*time.Second)
		if x := sh.txn("x"); x.State != txns.PrepareCommit {
			t.Errorf("%v, though the topic may only be new", x.State)
		}
		w.mu.Lock()
		w.dead[topicID(1)] = true
		w.mu.Unlock()
		awaitState(ctx, t, sh, "x", txns.CompleteCommit)
		if got := w.markersAt(partPlace(2, 0)); !slices.Equal(got, []bool{true}) {
			t.Errorf("markers %v", got)
		}
	})
}

func TestIdleIDsAreForgotten(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		old := begin(ctx, t, sh, "idle")
		open := begin(ctx, t, sh, "open")
		if err := sh.Add(ctx, Add{ID: "open", Producer: open, Groups: []int32{0}}); err != nil {
			t.Error(err)
		}
		if _, err := sh.change(ctx, "test", "open", func(x *txns.Txn, _, now int64) (*txns.Txn, error) {
			n := changed(x, now)
			n.Timeout = 1 << 30
			return n, nil
		}); err != nil {
			t.Error(err)
		}
		sleep.For(ctx, sh.opt.ForgetAfter-time.Minute)
		if sh.txn("idle") == nil {
			t.Error("forgotten too early")
		}
		sleep.For(ctx, 3*time.Minute)
		if sh.txn("idle") != nil || sh.txn("open") == nil {
			t.Errorf("idle %v, open %v", sh.txn("idle"), sh.txn("open"))
		}
		check(t, "of a forgotten one", sh.Add(ctx, Add{ID: "idle", Producer: old, Groups: []int32{0}}), kerr.InvalidProducerIDMapping)
		if p := begin(ctx, t, sh, "idle"); p.ID == old.ID || p.Epoch != 0 {
			t.Errorf("made again as %+v after %+v", p, old)
		}
	})
}

func TestDescribeAndList(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		a, b := begin(ctx, t, sh, "a"), begin(ctx, t, sh, "b")
		if err := sh.Add(ctx, Add{ID: "b", Producer: b, Partitions: []txns.Partition{part(1, 2)}, Groups: []int32{1}}); err != nil {
			t.Error(err)
		}
		sleep.For(ctx, 5*time.Second)
		list := func(f Filter) (out []string) {
			ts, err := sh.List(ctx, f)
			if err != nil {
				t.Error(err)
			}
			for _, x := range ts {
				out = append(out, x.ID)
			}
			return out
		}
		for _, tc := range []struct {
			f    Filter
			want []string
		}{
			{Filter{OpenFor: -1}, []string{"a", "b"}},
			{Filter{OpenFor: -1, States: []txns.State{txns.Empty, txns.PrepareAbort}}, []string{"a"}},
			{Filter{OpenFor: -1, Producers: []int64{b.ID, 99}}, []string{"b"}},
			{Filter{OpenFor: 4 * time.Second}, []string{"a", "b"}},
			{Filter{OpenFor: 6 * time.Second}, []string{"a"}},
			{Filter{OpenFor: -1, Match: func(id string) bool { return id == "a" }}, []string{"a"}},
			{Filter{OpenFor: -1, Producers: []int64{a.ID}, States: []txns.State{txns.Ongoing}}, nil},
		} {
			if got := list(tc.f); !slices.Equal(got, tc.want) {
				t.Errorf("%+v: %v, want %v", tc.f, got, tc.want)
			}
		}
		x, err := sh.Describe(ctx, "b")
		if err != nil || x.State != txns.Ongoing || len(x.Partitions) != 1 || x.Groups[0] != 1 || x.Started <= 0 {
			t.Errorf("%+v, %v", x, err)
		}
		_, err = sh.Describe(ctx, "c")
		check(t, "unknown", err, kerr.TransactionalIDNotFound)
	})
}

func TestRequestsThatCannotBe(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		for _, ms := range []int32{0, -1, 900_001} {
			_, err := sh.InitProducerID(ctx, "x", ms, nobody)
			check(t, "timeout", err, kerr.InvalidTransactionTimeout)
		}
		_, err := sh.InitProducerID(ctx, "", 1000, nobody)
		check(t, "no ID", err, kerr.InvalidRequest)
		_, err = sh.InitProducerID(ctx, "x", 1000, Producer{5, -1})
		check(t, "half a producer", err, kerr.InvalidRequest)
		check(t, "no ID", sh.Add(ctx, Add{}), kerr.InvalidRequest)
		_, err = sh.End(ctx, "", nobody, true, 2)
		check(t, "no ID", err, kerr.InvalidRequest)
		_, err = sh.Verify(ctx, Add{})
		check(t, "no ID", err, kerr.InvalidRequest)
		if sh.w.Committed().State.Len() != 0 {
			t.Error("something was made")
		}
		if p, err := sh.InitProducerID(ctx, "x", 900_000, Producer{7, 3}); err != nil || p.Epoch != 0 {
			t.Errorf("of one that is forgotten: %+v, %v", p, err)
		}
	})
}

// A client that went away leaves what it asked for to be done.
func TestEndIsDrivenWhenNobodyWaits(t *testing.T) {
	scene(t, func(ctx context.Context, t *testing.T, w *world, sh *Shard, _ func() substrate.FS) {
		p := begin(ctx, t, sh, "x")
		w.write(ctx, t, sh, "x", p, partPlace(1, 0))
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := sh.End(gone, "x", p, true, 2); err == nil {
			t.Error("answered to nobody")
		}
		c, cancel := context.WithTimeout(ctx, sh.opt.AbortEvery/2) // sooner than the sweep
		defer cancel()
		await(c, t, "the commit", func() bool { return sh.txn("x").State == txns.CompleteCommit })
	})
}
