package metalog_test

import (
	"context"
	"path"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/metalog"
)

// TestHangingHintsHoldNobodyUp: the calls that replace HEAD, and those that remove
// history, hang, as they do where the server has promised a host to tell it before, and
// that host stands still. Publishing goes on; a reader that is told of a position finds
// it; a closing waits a moment; and nothing is left behind when the calls return.
func TestHangingHintsHoldNobodyUp(t *testing.T) {
	for _, name := range []string{"rename", "remove"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			hang, hung := make(chan struct{}), make(chan struct{}, 1000)
			v := newVolume(t, func(op faultfs.Op) (f faultfs.Fault) {
				head := path.Base(op.Path) == substrate.HeadName
				if name == op.Name && (head || name == "remove") {
					hung <- struct{}{}
					<-hang
				}
				return f
			})
			s := session(t, v)
			w, err := metalog.Claim(ctx, s, stream, 1, &journalSchema, metalog.Options{Followed: true, BaseFiles: 4, RetentionEntries: 4})
			if err != nil {
				t.Fatal(err)
			}
			r := metalog.NewReader(v, stream, &journalSchema)
			put := func(value string) substrate.Position {
				p, err := w.Publish(ctx, "test", func(journal) ([]metalog.Event, error) { return []metalog.Event{add(t, value)}, nil })
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			put("0")
			if _, err := r.Poll(ctx); err != nil {
				t.Fatal(err)
			}
			all := []string{"0"}
			for range 20 {
				all = append(all, "more")
				put("more")
			}
			r.Expect(w.Committed().Pos)
			for range 2 { // the first may find that its base is gone
				if _, err := r.Poll(ctx); err != nil {
					t.Fatal(err)
				}
			}
			got, _ := r.Snapshot()
			want(t, "the reader's state", got.State, all...)
			if err := w.Close(ctx); err != nil {
				t.Errorf("close: %v", err)
			}
			if n := len(hung); n != 1 {
				t.Errorf("%d calls hang, want one", n)
			}
			close(hang)
			if err := s.Close(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestExpectedPositionThatIsNotThere: what a reader was told in error costs one look.
func TestExpectedPositionThatIsNotThere(t *testing.T) {
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{Followed: true})
	r := metalog.NewReader(v, stream, &journalSchema)
	publish(t, w, "a")
	if _, err := r.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Expect(substrate.Position{Epoch: 1, Seq: 9})
	if changed, err := r.Poll(t.Context()); changed || err == nil {
		t.Errorf("a position that is not there was found: %t, %v", changed, err)
	}
	publish(t, w, "b")
	eventually(t, "the next look follows HEAD", func() bool {
		_, err := r.Poll(t.Context())
		s, _ := r.Snapshot()
		return err == nil && len(s.State) == 2
	})
}
