package election

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/internal/substrate/nfssim"
)

func onTemp(t *testing.T, hook func(faultfs.Op) faultfs.Fault) *substrate.Volume {
	t.Helper()
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if hook == nil {
		return &substrate.Volume{FS: d}
	}
	return &substrate.Volume{FS: &faultfs.FS{FS: d, Hook: hook}}
}

func record(holder string) rl.LeaderElectionRecord {
	return rl.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 3, LeaderTransitions: 7,
		AcquireTime: metav1.NewTime(time.UnixMilli(1000)), RenewTime: metav1.NewTime(time.UnixMilli(2000))}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, l rl.Interface, holder string) []byte {
	t.Helper()
	r, raw, err := l.Get(t.Context())
	ok(t, err)
	if r.HolderIdentity != holder {
		t.Fatalf("held by %q, want %q", r.HolderIdentity, holder)
	}
	return raw
}

func count(t *testing.T, v *substrate.Volume) int {
	t.Helper()
	es, err := v.List(dir)
	ok(t, err)
	return len(es)
}

func TestRecordsFollowOneAnother(t *testing.T) {
	v := onTemp(t, nil)
	a, b := NewVolumeLock(v, "1"), NewVolumeLock(v, "2")
	if _, _, err := a.Get(t.Context()); !apierrors.IsNotFound(err) {
		t.Fatalf("an empty volume answers %v", err)
	}
	ok(t, a.Create(t.Context(), record("1")))
	if err := b.Create(t.Context(), record("2")); !apierrors.IsConflict(err) {
		t.Fatalf("second create: %v", err)
	}
	raw := get(t, b, "1")
	if again := get(t, b, "1"); string(again) != string(raw) {
		t.Error("the record has changed by itself")
	}
	r, _, err := a.Get(t.Context())
	ok(t, err)
	if want := record("1"); !r.RenewTime.Equal(&want.RenewTime) || !r.AcquireTime.Equal(&want.AcquireTime) ||
		r.LeaseDurationSeconds != want.LeaseDurationSeconds || r.LeaderTransitions != want.LeaderTransitions {
		t.Errorf("read %+v, wrote %+v", *r, want)
	}
	ok(t, a.Update(t.Context(), record("1")))
	if err := b.Update(t.Context(), record("2")); !apierrors.IsConflict(err) {
		t.Fatalf("update of what is no more the newest: %v", err)
	}
	if again := get(t, b, "1"); string(again) == string(raw) {
		t.Error("a renewal with the same times does not show")
	}
	ok(t, b.Update(t.Context(), record("2")))
	get(t, a, "2")
}

// tidied waits until the lock removes nothing.
func tidied(l rl.Interface) {
	lane := l.(*volumeLock).tidy
	lane <- struct{}{}
	<-lane
}

// A removal hangs, as it does while a host that has the record open stands still: who
// holds the lock renews it all the same, and there is one such call.
func TestHangingRemovalHoldsNoRenewalUp(t *testing.T) {
	hang, hung := make(chan struct{}), make(chan struct{}, 3*keep)
	v := onTemp(t, func(op faultfs.Op) (f faultfs.Fault) {
		if op.Name == "remove" {
			hung <- struct{}{}
			<-hang
		}
		return f
	})
	l := NewVolumeLock(v, "1")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ok(t, l.Create(ctx, record("1")))
	for range 2 * keep {
		ok(t, l.Update(ctx, record("1")))
	}
	if n := len(hung); n != 1 {
		t.Errorf("%d removals are under way", n)
	}
	close(hang)
	tidied(l)
}

// Who slept until its next number was made and pruned loses all the same.
func TestSleeperLoses(t *testing.T) {
	v := onTemp(t, nil)
	a, b := NewVolumeLock(v, "1"), NewVolumeLock(v, "2")
	ok(t, a.Create(t.Context(), record("1")))
	get(t, b, "1")
	for range 3 * keep {
		ok(t, b.Update(t.Context(), record("2")))
		tidied(b) // one that begins while another is under way is left to a later one
	}
	if n := count(t, v); n != keep {
		t.Errorf("%d records, want %d", n, keep)
	}
	if err := a.Update(t.Context(), record("1")); !apierrors.IsConflict(err) {
		t.Errorf("the sleeper's update: %v", err)
	}
	ok(t, b.Update(t.Context(), record("2")))
	tidied(b)
	if n := count(t, v); n != keep {
		t.Errorf("%d records: the sleeper's was not pruned", n)
	}
	get(t, a, "2")
}

// A newest record that is empty is of an unknown holder, and turns into its writer's.
func TestRecordUnderWay(t *testing.T) {
	v := onTemp(t, nil)
	a, b := NewVolumeLock(v, "1"), NewVolumeLock(v, "2")
	ok(t, a.Create(t.Context(), record("1")))
	f, err := v.CreateExclusive(recordPath(2))
	ok(t, err)
	raw := get(t, b, unknown)
	get(t, a, "1") // goes on from its own
	data, err := encodeRecord(record("3"))
	ok(t, err)
	_, err = f.WriteAt(data[:30], 0)
	ok(t, err)
	get(t, b, unknown)
	_, err = f.WriteAt(data, 0)
	ok(t, err)
	ok(t, f.Close())
	if whole := get(t, b, "3"); string(whole) != string(raw) {
		t.Error("bytes that came late count as a renewal")
	}
	f, err = v.CreateExclusive(recordPath(3))
	ok(t, err)
	raw = get(t, b, unknown)
	data, err = encodeRecord(record(""))
	ok(t, err)
	_, err = f.WriteAt(data, 0)
	ok(t, err)
	ok(t, f.Close())
	if free := get(t, b, ""); string(free) == string(raw) {
		t.Error("a release does not show")
	}
}

// Other names in the directory do not stop an election.
func TestForeignNames(t *testing.T) {
	v := onTemp(t, nil)
	ok(t, v.Mkdir(dir))
	for _, name := range []string{".nfs0001", "README", "0", "000000000000000000000", "00000000000000000000", "99999999999999999999"} {
		ok(t, v.WriteFile(dir+"/"+name, nil))
	}
	a := NewVolumeLock(v, "1")
	if _, _, err := a.Get(t.Context()); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	ok(t, a.Create(t.Context(), record("1")))
	get(t, a, "1")
}

// A directory that somebody removes is made again, and numbers go on.
func TestDirectoryRemoved(t *testing.T) {
	v := onTemp(t, nil)
	a, b := NewVolumeLock(v, "1"), NewVolumeLock(v, "2")
	ok(t, a.Create(t.Context(), record("1")))
	get(t, b, "1")
	ok(t, v.RemoveTree(dir))
	if err := a.Update(t.Context(), record("1")); err == nil {
		t.Fatal("a record in a directory that is gone")
	}
	ok(t, a.Update(t.Context(), record("1")))
	get(t, b, "1")
	ok(t, b.Update(t.Context(), record("2")))
	get(t, a, "2")
}

// On a full volume old records are the room for new ones, and a holder's torn ones are
// stepped over.
func TestFullVolume(t *testing.T) {
	var v *substrate.Volume
	var full atomic.Bool
	v = onTemp(t, func(op faultfs.Op) faultfs.Fault {
		if full.Load() && op.Name == "write" && count(t, v) > 2*keepFull {
			return faultfs.Fault{Err: syscall.ENOSPC, Apply: true}
		}
		return faultfs.Fault{}
	})
	a, b := NewVolumeLock(v, "1"), NewVolumeLock(v, "2")
	ok(t, a.Create(t.Context(), record("1")))
	for range keep {
		ok(t, a.Update(t.Context(), record("1")))
	}
	tidied(a)
	full.Store(true)
	tries := 0
	for a.Update(t.Context(), record("1")) != nil {
		if tries++; tries > 2*keep/mostPruned {
			t.Fatal("never again")
		}
		get(t, a, "1")
		get(t, b, unknown)
	}
	if tries == 0 {
		t.Error("the volume was not full")
	}
	get(t, b, "1")
}

// Each call of an update is refused in turn, with and without effect: the holder, which
// looks and tries again as the library does, is never taken for another.
func TestEveryCallFails(t *testing.T) {
	for _, apply := range []bool{false, true} {
		for k := 1; ; k++ {
			calls, armed := 0, false
			v := onTemp(t, func(faultfs.Op) faultfs.Fault {
				if armed {
					if calls++; calls == k {
						return faultfs.Fault{Err: syscall.EIO, Apply: apply}
					}
				}
				return faultfs.Fault{}
			})
			a := NewVolumeLock(v, "1")
			ok(t, a.Create(t.Context(), record("1")))
			armed = true
			if err := a.Update(t.Context(), record("1")); err != nil {
				for range 2 { // the fault may be met by the look
					if _, _, err = a.Get(t.Context()); err == nil {
						break
					}
				}
				ok(t, err)
				get(t, a, "1")
				ok(t, a.Update(t.Context(), record("1")))
			}
			armed = false
			get(t, NewVolumeLock(v, "2"), "1")
			if calls < k {
				break
			}
		}
	}
}

// K-03: the times in a record decide nothing. What a host an hour ahead or behind wrote
// is waited out like any other, by the observer's own clock.
func TestClocksOfOthersDecideNothing(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		inSim(t, nfssim.Config{Seed: 4}, func(w *world) {
			v := w.server()
			ok(t, v.Mkdir(dir))
			r := record("9")
			r.RenewTime = metav1.NewTime(time.Now().Add(skew))
			data, err := encodeRecord(r)
			ok(t, err)
			ok(t, v.WriteFile(recordPath(1), data))
			n := w.start(w.node("a", "1"))
			if took := w.within(takeover, "the record expires", n.leading.Load); took < 3*time.Second {
				t.Errorf("a clock %v off: taken after %v", skew, took)
			}
		})
	}
}

// K-03: the library compares times that carry the monotonic clock, so that a step of the
// wall clock is not seen. An upgrade that strips it fails here.
func TestLibraryKeepsMonotonicTime(t *testing.T) {
	if now := metav1.NewTime(time.Now()); !strings.Contains(now.String(), " m=") {
		t.Errorf("%v has no monotonic reading", now)
	}
}

// A dead writer's empty record expires like one that is whole.
func TestTornRecordExpires(t *testing.T) {
	inSim(t, nfssim.Config{Seed: 6}, func(w *world) {
		v := w.server()
		ok(t, v.Mkdir(dir))
		ok(t, v.WriteFile(recordPath(5), nil))
		n := w.start(w.node("a", "1"))
		if took := w.within(takeover, "the record expires", n.leading.Load); took < 3*time.Second {
			t.Errorf("taken after %v", took)
		}
	})
}

// Calls that hang are not waited for, and few are left behind.
func TestHangingCallsAreBounded(t *testing.T) {
	hang := make(chan struct{})
	hung := make(chan struct{}, 100)
	v := onTemp(t, func(op faultfs.Op) faultfs.Fault {
		if op.Name == "mkdir" {
			hung <- struct{}{}
			<-hang
			hung <- struct{}{}
		}
		return faultfs.Fault{}
	})
	l := NewVolumeLock(v, "1")
	for range 3 * hanging {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, _, err := l.Get(ctx); err == nil {
			t.Error("a hanging volume answers")
		}
		cancel()
	}
	for range hanging {
		<-hung
	}
	if n := len(hung); n != 0 {
		t.Errorf("%d calls too many hang", n)
	}
	close(hang)
	for range hanging {
		<-hung
	}
	ok(t, l.Create(t.Context(), record("1")))
}

// The price of an election on the volume: calls in a minute of one holder and one candidate.
func TestCallsPerRenewal(t *testing.T) {
	calls := map[string]map[nfssim.Kind]int{}
	cfg := nfssim.Config{Seed: 7, Fault: func(op nfssim.Op) error {
		if calls[op.Host] == nil {
			calls[op.Host] = map[nfssim.Kind]int{}
		}
		calls[op.Host][op.Kind]++
		return nil
	}}
	inSim(t, cfg, func(w *world) {
		for _, id := range []string{"0", "1"} {
			w.start(w.node(id, id))
		}
		ns := w.sorted()
		w.pass(time.Minute) // till records are pruned
		clear(calls)
		w.pass(time.Minute)
		renewals := calls[ns[0].host][nfssim.OpCreate]
		if renewals < 100 || renewals > 121 {
			t.Errorf("%d renewals in a minute, want two a second", renewals)
		}
		for _, n := range ns {
			total := 0
			for k, c := range calls[n.host] {
				t.Logf("leading %v: %s %d", n.leading.Load(), k, c)
				total += c
			}
			most := 6 * renewals
			if total > most {
				t.Errorf("%d calls in a minute, want at most %d", total, most)
			}
		}
		if looks := calls[ns[1].host][nfssim.OpList]; looks < 119 {
			t.Errorf("%d looks in a minute of a candidate, want one in each half second at least", looks)
		}
		if calls[ns[0].host][nfssim.OpDatasync]+calls[ns[0].host][nfssim.OpSyncDir] != 0 {
			t.Error("a hint is synced")
		}
	})
}
