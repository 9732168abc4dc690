package metalog_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
)

// TestSweepIndex: what an index calls committed is on the one chain, whatever happens to the
// stream while it is listed and read.
func TestSweepIndex(t *testing.T) {
	var total stats
	sweep.Run(t, 400, func(seed int64) error {
		st, err := simulateWith(t, seed, substrate.Breaks{}, (*world).list)
		total.add(st)
		return err
	})
	t.Logf("%+v", total)
	if total.Acked == 0 || total.Claims == 0 || total.Shown == 0 {
		t.Fatalf("the sweep did nothing: %+v", total)
	}
}

// list reads an index again and again, and the states at what it calls committed: at the
// newest, and at the last of an epoch, now of one, now of another. Any file may be pruned
// between, and any call may fail.
func (w *world) list(ctx context.Context, name string, v *substrate.Volume) {
	for n := 0; ctx.Err() == nil; n++ {
		sleep.For(ctx, 700*time.Millisecond)
		x, err := metalog.ReadIndex(ctx, v, stream)
		if err != nil {
			continue
		}
		last := lastCommitted(x)
		for len(last) > 0 {
			p := last[len(last)-1]
			if snap, err := metalog.ReadStateAt(ctx, v, stream, p, &journalSchema); err == nil {
				w.o.mu.Lock()
				w.o.Shown++
				w.o.observe(fmt.Sprintf("called committed at %s by %s", p, name), snap.State)
				w.o.mu.Unlock()
			}
			last = last[:n%len(last)]
			n++
		}
	}
}

// lastCommitted are the newest committed entries of each epoch.
func lastCommitted(x *metalog.Index) (last []substrate.Position) {
	for i := range x.Len() {
		p := x.At(i)
		if x.Status(p) != metalog.StatusCommitted {
			continue
		}
		if m := len(last); m > 0 && last[m-1].Epoch == p.Epoch {
			last = last[:m-1]
		}
		last = append(last, p)
	}
	return last
}

// TestIndexBelowALostBase: what an epoch continues from is told by its base alone. Without it
// nothing below is called committed.
func TestIndexBelowALostBase(t *testing.T) {
	for name, lose := range map[string]func(file string) error{
		"pruned":  os.Remove,
		"emptied": func(file string) error { return os.Truncate(file, 0) },
		"torn":    func(file string) error { return os.Truncate(file, 10) },
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, nil)
			for e := substrate.Epoch(1); e <= 2; e++ {
				s := session(t, v)
				w := claim(t, s, e, metalog.Options{})
				publish(t, w, "a")
				publish(t, w, "b")
				if err := w.Abandon(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			look := func(want metalog.Status) {
				t.Helper()
				x, err := metalog.ReadIndex(context.Background(), v, stream)
				if err != nil {
					t.Fatal(err)
				}
				for p, want := range map[substrate.Position]metalog.Status{{Epoch: 1, Seq: 1}: want, {Epoch: 1, Seq: 2}: want, {Epoch: 2, Seq: 2}: metalog.StatusCommitted} {
					if got := x.Status(p); got != want {
						t.Errorf("%s is %s, want %s", p, got, want)
					}
				}
			}
			look(metalog.StatusCommitted)
			base := substrate.EntryPath(stream, substrate.Position{Epoch: 2, Seq: 1})
			if err := lose(filepath.Join(v.FS.(*substrate.DirFS).Root(), base)); err != nil {
				t.Fatal(err)
			}
			look(metalog.StatusUndecided)
		})
	}
}
