package substrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const stream = "s"

// newVolume makes a volume in a temporary directory with one born stream, seen
// through hook.
func newVolume(t *testing.T, hook func(faultfs.Op) faultfs.Fault) *substrate.Volume {
	t.Helper()
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if hook == nil {
		hook = func(faultfs.Op) faultfs.Fault { return faultfs.Fault{} }
	}
	v, err := substrate.OpenVolume(d, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.BuildStream(stream, entry(t, substrate.FlagBase|substrate.FlagClosed)); err != nil {
		t.Fatal(err)
	}
	v.FS = &faultfs.FS{FS: d, Hook: hook}
	return v
}

func entry(t *testing.T, flags uint16) []byte {
	t.Helper()
	b, err := substrate.EncodeFile(substrate.KindEntry, flags, "x")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func open(t *testing.T, v *substrate.Volume) *substrate.Session {
	t.Helper()
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func publish(t *testing.T, v *substrate.Volume, s *substrate.Session, p substrate.Position, flags uint16) {
	t.Helper()
	err := v.ReplaceFile(stream+"/"+substrate.EpochName(p.Epoch), substrate.EntryName(p), s.ID(), entry(t, flags))
	if err != nil {
		t.Fatal(err)
	}
}

func wantBase(t *testing.T, got substrate.Position, err error, want substrate.Position) {
	t.Helper()
	if err != nil || got != want {
		t.Fatalf("base %v, error %v; want %v", got, err, want)
	}
}

func TestClaimFencesTheOldOwner(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	a, b := open(t, v), open(t, v)
	p, err := a.Claim(ctx, stream, 1)
	wantBase(t, p, err, substrate.Position{Epoch: 0, Seq: 1})
	publish(t, v, a, substrate.Position{Epoch: 1, Seq: 1}, substrate.FlagBase)
	for range 3 { // the token goes to and fro
		if err := a.Check(ctx); err != nil {
			t.Fatal(err)
		}
	}
	p, err = b.Claim(ctx, stream, 5) // 2 to 4 were made by nobody: burnt
	wantBase(t, p, err, substrate.Position{Epoch: 1, Seq: 1})
	if err := a.Check(ctx); !errors.Is(err, substrate.ErrFenced) {
		t.Fatalf("the old owner's Check gave %v", err)
	}
	<-a.Fenced()
	if err := b.Check(ctx); err != nil {
		t.Fatal(err)
	}
	for e := substrate.Epoch(1); e <= 5; e++ {
		c := open(t, v)
		if _, err := c.Claim(ctx, stream, e); !errors.Is(err, substrate.ErrEpochTaken) {
			t.Fatalf("claim of taken epoch %d gave %v", e, err)
		}
	}
}

func TestClosedNeedsNoSeal(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	a, b := open(t, v), open(t, v)
	if _, err := a.Claim(ctx, stream, 1); err != nil {
		t.Fatal(err)
	}
	publish(t, v, a, substrate.Position{Epoch: 1, Seq: 1}, substrate.FlagBase)
	publish(t, v, a, substrate.Position{Epoch: 1, Seq: 2}, substrate.FlagClosed)
	a.EndLead(stream, true)
	p, err := b.Claim(ctx, stream, 2)
	wantBase(t, p, err, substrate.Position{Epoch: 1, Seq: 2})
	if err := a.Check(ctx); err != nil {
		t.Fatalf("a handover fenced the old owner: %v", err)
	}
}

func TestLeadingAgain(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	a := open(t, v)
	if _, err := a.Claim(ctx, stream, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Claim(ctx, stream, 2); !errors.Is(err, substrate.ErrStillLeading) {
		t.Fatalf("claim while leading gave %v", err)
	}
	publish(t, v, a, substrate.Position{Epoch: 1, Seq: 1}, substrate.FlagBase)
	a.EndLead(stream, true)
	p, err := a.Claim(ctx, stream, 2)
	wantBase(t, p, err, substrate.Position{Epoch: 1, Seq: 1})
	if err := a.Check(ctx); err != nil {
		t.Fatalf("one's own session was sealed: %v", err)
	}
	a.EndLead(stream, false)
	if _, err := a.Claim(ctx, stream, 3); !errors.Is(err, substrate.ErrStillLeading) {
		t.Fatalf("claim after an indefinite end gave %v", err)
	}
}

// TestPlug has the traps of the plug: an empty newest file is nobody's entry, an
// entry over the hole is found by the second listing.
func TestPlug(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	a := open(t, v)
	if _, err := a.Claim(ctx, stream, 1); err != nil {
		t.Fatal(err)
	}
	publish(t, v, a, substrate.Position{Epoch: 1, Seq: 3}, substrate.FlagBase) // 1 and 2 are pruned
	b := open(t, v)
	p, err := b.Claim(ctx, stream, 2) // b publishes nothing and is gone
	wantBase(t, p, err, substrate.Position{Epoch: 1, Seq: 3})
	c := open(t, v)
	p, err = c.Claim(ctx, stream, 3)
	wantBase(t, p, err, substrate.Position{Epoch: 1, Seq: 3})
	ps, err := v.ListEntries(stream, 1)
	if err != nil || len(ps) != 2 || ps[1].Seq != 4 {
		t.Fatalf("entries of epoch 1: %v, %v; want the entry 3 and a plug at 4", ps, err)
	}
	if ps, err = v.ListEntries(stream, 2); err != nil || len(ps) != 1 || ps[0].Seq != 1 {
		t.Fatalf("entries of epoch 2: %v, %v; want a plug at 1", ps, err)
	}
}

func TestNoBaseIsFatal(t *testing.T) {
	v := newVolume(t, nil)
	if err := v.Remove(substrate.EntryPath(stream, substrate.Position{Epoch: 0, Seq: 1})); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, v).Claim(context.Background(), stream, 1); !errors.Is(err, substrate.ErrNoBase) {
		t.Fatalf("claim of a stream without entries gave %v", err)
	}
}

func TestMisspeltNamesAreErrors(t *testing.T) {
	for _, name := range []string{"1-1.snap", "0000000000-1.snap", "0000000007-00000000000000000001.snap", "0000000000-00000000000000000000.snap"} {
		v := newVolume(t, nil)
		if err := v.WriteFile(stream+"/0000000000/"+name, nil); err != nil {
			t.Fatal(err)
		}
		_, err := open(t, v).Claim(context.Background(), stream, 1)
		var ne *substrate.NameError
		if !errors.As(err, &ne) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: claim gave %v", name, err)
		}
	}
}

// TestLostReplies is CASES N-05: a rename that answers ENOENT and a create or
// mkdir that answers EEXIST may have worked.
func TestLostReplies(t *testing.T) {
	ctx := context.Background()
	for _, op := range []struct {
		name string
		err  error
	}{{"rename", syscall.ENOENT}, {"rename", syscall.EIO}, {"create", syscall.EEXIST}, {"mkdir", syscall.EEXIST}, {"mkdir", syscall.EIO}} {
		for k := 1; ; k++ {
			fired := false
			v := newVolume(t, nil)
			a, b := open(t, v), open(t, v)
			if _, err := a.Claim(ctx, stream, 1); err != nil {
				t.Fatal(err)
			}
			publish(t, v, a, substrate.Position{Epoch: 1, Seq: 1}, substrate.FlagBase)
			once := faultfs.Once(k, faultfs.Fault{Err: op.err, Apply: true}, func(o faultfs.Op) bool { return o.Name == op.name && !strings.Contains(o.Path, "~new~") })
			v.FS.(*faultfs.FS).Hook = func(o faultfs.Op) faultfs.Fault { f := once(o); fired = fired || f.Err != nil; return f }
			t.Run(fmt.Sprintf("%s/%v/%d", op.name, op.err, k), func(t *testing.T) {
				if err := a.Check(ctx); err != nil {
					t.Errorf("check: %v", err)
				}
				p, err := b.Claim(ctx, stream, 3)
				wantBase(t, p, err, substrate.Position{Epoch: 1, Seq: 1})
				if err := b.Check(ctx); err != nil {
					t.Errorf("new owner's check: %v", err)
				}
				if err := a.Check(ctx); !errors.Is(err, substrate.ErrFenced) {
					t.Errorf("old owner's check gave %v", err)
				}
			})
			if !fired {
				break
			}
		}
	}
}

// TestFullVolumeDoesNotFence: ENOSPC on a Check proves nothing either way.
func TestFullVolumeDoesNotFence(t *testing.T) {
	ctx := context.Background()
	full := false
	var mu sync.Mutex
	v := newVolume(t, func(o faultfs.Op) faultfs.Fault {
		mu.Lock()
		defer mu.Unlock()
		if full && o.Name == "rename" {
			return faultfs.Fault{Err: syscall.ENOSPC}
		}
		return faultfs.Fault{}
	})
	a := open(t, v)
	mu.Lock()
	full = true
	mu.Unlock()
	if err := a.Check(ctx); !errors.Is(err, substrate.ErrUnknown) || errors.Is(err, substrate.ErrFenced) {
		t.Fatalf("check on a full volume gave %v", err)
	}
	mu.Lock()
	full = false
	mu.Unlock()
	if err := a.Check(ctx); err != nil {
		t.Fatalf("check after there was room again: %v", err)
	}
}

// TestSealRaces has an owner that checks as fast as it can while it is sealed.
func TestSealRaces(t *testing.T) {
	ctx := context.Background()
	for range 20 {
		v := newVolume(t, nil)
		a := open(t, v)
		var wg sync.WaitGroup
		wg.Go(func() {
			for a.Check(ctx) == nil {
			}
		})
		if err := v.Seal(ctx, a.ID()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if !a.IsFenced() {
			t.Fatal("the owner ended without being fenced")
		}
		if ok, err := v.Unsealed(a.ID()); ok || err != nil {
			t.Fatalf("a sealed session reads as unsealed=%v, %v", ok, err)
		}
	}
}

func TestSealOfAbsentSession(t *testing.T) {
	v := newVolume(t, nil)
	open(t, v)
	if err := v.Seal(context.Background(), "nobody"); err != nil {
		t.Fatal(err)
	}
}

func TestVolumeHasOneMaker(t *testing.T) {
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, 16)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			v, err := substrate.OpenVolume(d, "")
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = v.ID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("volume IDs differ: %v", ids)
		}
	}
	if _, err := substrate.OpenVolume(d, "another"); err == nil {
		t.Fatal("a volume of another cluster was accepted")
	}
}

func TestVolumeIsNotMadeOverAnOldOne(t *testing.T) {
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Mkdir("topics"); err != nil {
		t.Fatal(err)
	}
	if _, err := substrate.OpenVolume(d, ""); err == nil {
		t.Fatal("a new volume was made beside old topics")
	}
	if es, _ := d.List("."); len(es) != 1 {
		t.Fatalf("the refusal left %v", es)
	}
}

// staleFS answers the first listings of a directory with an older one.
type staleFS struct {
	substrate.FS
	dir   string
	old   []substrate.DirEntry
	times int
}

func (f *staleFS) List(name string) ([]substrate.DirEntry, error) {
	if name == f.dir && f.times > 0 {
		f.times--
		return f.old, nil
	}
	return f.FS.List(name)
}

// TestPlugInPrunedHistory: under a stale listing the plug goes into the hole that
// pruning left. The listing after it finds what lives above.
func TestPlugInPrunedHistory(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	a, b := open(t, v), open(t, v)
	if _, err := a.Claim(ctx, stream, 1); err != nil {
		t.Fatal(err)
	}
	epoch := stream + "/" + substrate.EpochName(1)
	old, err := v.List(epoch)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, v, a, substrate.Position{Epoch: 1, Seq: 1}, substrate.FlagBase)
	publish(t, v, a, substrate.Position{Epoch: 1, Seq: 2}, substrate.FlagBase)
	if err := v.Remove(substrate.EntryPath(stream, substrate.Position{Epoch: 1, Seq: 1})); err != nil {
		t.Fatal(err)
	}
	v.FS = &staleFS{FS: v.FS, dir: epoch, old: old, times: 2} // before and after the seal
	p, err := b.Claim(ctx, stream, 2)
	wantBase(t, p, err, substrate.Position{Epoch: 1, Seq: 2})
}

// TestEmptiedEntry: an entry that has lost its bytes is not taken for a plug where
// nobody can have plugged, nor below what HEAD says was acknowledged.
func TestEmptiedEntry(t *testing.T) {
	ctx := context.Background()
	newest := substrate.Position{Epoch: 1, Seq: 2}
	for name, claimants := range map[string]int{"nobody came since": 0, "HEAD names it": 1} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, nil)
			a := open(t, v)
			if _, err := a.Claim(ctx, stream, 1); err != nil {
				t.Fatal(err)
			}
			publish(t, v, a, substrate.Position{Epoch: 1, Seq: 1}, substrate.FlagBase)
			publish(t, v, a, newest, substrate.FlagBase)
			head, err := substrate.EncodeFile(substrate.KindHead, 0, substrate.HeadBody{Pos: newest})
			if err != nil {
				t.Fatal(err)
			}
			if claimants > 0 {
				if err := v.ReplaceFile(stream+"/"+substrate.EpochName(1), substrate.HeadName, a.ID(), head); err != nil {
					t.Fatal(err)
				}
			}
			e := substrate.Epoch(2)
			for range claimants {
				if _, err := open(t, v).Claim(ctx, stream, e); err != nil {
					t.Fatal(err)
				}
				e++
			}
			if err := v.Remove(substrate.EntryPath(stream, newest)); err != nil {
				t.Fatal(err)
			}
			if err := v.WriteFile(substrate.EntryPath(stream, newest), nil); err != nil {
				t.Fatal(err)
			}
			_, err = open(t, v).Claim(ctx, stream, e)
			var de *substrate.DamageError
			if !errors.As(err, &de) || de.File != substrate.EntryPath(stream, newest) {
				t.Fatalf("claim over an emptied entry gave %v", err)
			}
		})
	}
}

// TestRemovedSessionIsFenced: nobody deletes a session, but should one be gone, its
// owner can prove nothing any more.
func TestRemovedSessionIsFenced(t *testing.T) {
	v := newVolume(t, nil)
	a := open(t, v)
	if err := v.RemoveTree(substrate.SessionPath(a.ID())); err != nil {
		t.Fatal(err)
	}
	if err := a.Check(context.Background()); !errors.Is(err, substrate.ErrFenced) {
		t.Fatalf("check of a removed session gave %v", err)
	}
}

// TestFailedStartLeavesNothing: a full volume refuses a session and keeps no trace.
func TestFailedStartLeavesNothing(t *testing.T) {
	full := func(o faultfs.Op) faultfs.Fault {
		if o.Name == "write" || o.Name == "datasync" {
			return faultfs.Fault{Err: syscall.ENOSPC, Apply: true}
		}
		return faultfs.Fault{}
	}
	v := newVolume(t, nil)
	open(t, v)
	before, err := v.List(substrate.SessionsDir)
	if err != nil {
		t.Fatal(err)
	}
	v.FS.(*faultfs.FS).Hook = full
	if _, err := v.OpenSession(substrate.Identity{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("session on a full volume: %v", err)
	}
	after, err := v.List(substrate.SessionsDir)
	if err != nil || len(after) != len(before) {
		t.Fatalf("sessions/ went from %v to %v, %v", before, after, err)
	}
}

// TestOwnClaimIsNotAnothers: a claim that is in place but whose directory could not be
// synced is given up, and is not taken for somebody else's.
func TestOwnClaimIsNotAnothers(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	a := open(t, v)
	v.FS.(*faultfs.FS).Hook = faultfs.Once(1, faultfs.Fault{Err: syscall.EIO}, func(o faultfs.Op) bool { return o.Name == "syncdir" && o.Path == stream })
	if _, err := a.Claim(ctx, stream, 1); !errors.Is(err, substrate.ErrNotDurable) || errors.Is(err, substrate.ErrEpochTaken) {
		t.Fatalf("claim whose directory could not be synced gave %v", err)
	}
	p, err := a.Claim(ctx, stream, 2)
	wantBase(t, p, err, substrate.Position{Epoch: 0, Seq: 1})
	if err := a.Check(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestVolumeMadeMeanwhile: another broker makes the volume, and metadata on it, after this one has
// looked for its ID.
func TestVolumeMadeMeanwhile(t *testing.T) {
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made := ""
	v, err := substrate.OpenVolume(&faultfs.FS{FS: d, Hook: func(op faultfs.Op) faultfs.Fault {
		if op.Name != "open" || made != "" {
			return faultfs.Fault{}
		}

		other, err := substrate.OpenVolume(d, "")
		if err == nil {
			made, err = other.ID, other.Mkdir("meta")
		}
		if err != nil {
			t.Error(err)
		}
		return faultfs.Fault{Err: syscall.ENOENT} // as it was a moment ago
	}}, "")
	if err != nil {
		t.Fatal(err)
	}
	if v.ID != made {
		t.Errorf("the volume's ID is %q, and another had made it %q", v.ID, made)
	}
}
