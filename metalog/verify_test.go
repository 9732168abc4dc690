package metalog_test

import (
	"testing"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// TestPlugInPrunedHistory: a claimant that goes by an old listing plugs the place of an entry
// that is pruned, while the next one is not yet. Nothing is wrong with such a stream; with
// one that has lost the bytes of an entry in between there is.
func TestPlugInPrunedHistory(t *testing.T) {
	for seq, faults := range map[uint64]int{1: 0, 2: 1} {
		v := newVolume(t, nil)
		w := claim(t, session(t, v), 1, metalog.Options{BaseFiles: 4})
		for range 10 {
			publish(t, w, "a")
		}
		w.Abandon(t.Context())
		if err := v.Remove(substrate.EntryPath(stream, substrate.Position{Epoch: 0, Seq: 1})); err != nil {
			t.Fatal(err)
		}
		name := substrate.EntryPath(stream, substrate.Position{Epoch: 1, Seq: seq})
		if err := v.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := v.WriteFile(name, nil); err != nil {
			t.Fatal(err)
		}
		publish(t, claim(t, session(t, v), 2, metalog.Options{}), "b")
		res, err := metalog.Verify(v, stream, &journalSchema)
		if err != nil || res.Faults() != faults {
			t.Errorf("entry %d is empty: %v, %+v", seq, err, res)
		}
	}
}
