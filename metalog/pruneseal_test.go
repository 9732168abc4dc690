package metalog_test

import (
	"context"
	"sync/atomic"
	"testing"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/metalog"
)

// TestSealedOwnerPrunesNothing: an owner stands still when it is about to prune, and its
// session is sealed meanwhile, because the volume came back from a snapshot. What it would
// remove may be the newest that the volume has.
func TestSealedOwnerPrunesNothing(t *testing.T) {
	var v *substrate.Volume
	var s *substrate.Session
	var armed atomic.Bool
	removed, sealed := make(chan string, 100), make(chan struct{})
	v = newVolume(t, func(op faultfs.Op) (f faultfs.Fault) {
		switch {
		case op.Name == "list" && op.Path == stream && armed.CompareAndSwap(true, false):
			for len(removed) > 0 {
				<-removed
			}
			if err := v.Seal(context.Background(), s.ID()); err != nil {
				t.Error(err)
			}
			close(sealed)
		case op.Name == "remove":
			removed <- op.Path
		}
		return f
	})
	s = session(t, v)
	w := claim(t, s, 1, metalog.Options{BaseFiles: 4, RetentionEntries: 4})
	for i := range 100 {
		if i == 20 {
			armed.Store(true)
		}
		_, err := w.Publish(t.Context(), "test", func(journal) ([]metalog.Event, error) { return []metalog.Event{add(t, "more")}, nil })
		if err != nil {
			break
		}
	}
	<-sealed
	if err := s.Close(t.Context()); err != nil { // waits for the pruning
		t.Fatal(err)
	}
	select {
	case name := <-removed:
		t.Errorf("%s was removed", name)
	default:
	}
}
