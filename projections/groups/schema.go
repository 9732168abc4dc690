package groups

import (
	"fmt"

	"kaas.dev/kaas/metalog"
)

// Schema tells metalog how a shard's stream is folded.
func Schema() *metalog.Schema[*Shard] {
	return &metalog.Schema[*Shard]{New: NewShard, Apply: Apply, Encode: Encode, Decode: Decode, Known: Known}
}

// Apply returns the view after a batch of events. An event of an unknown type is
// left out; one whose bytes do not decode is an error and nothing is applied.
func Apply(s *Shard, evs []metalog.Event) (*Shard, error) {
	d := newDraft(s)
	for i, ev := range evs {
		if !Known(ev) {
			continue
		}
		f, err := DecodeEvent(ev)
		if err != nil {
			return nil, fmt.Errorf("event %d of %d: %w", i+1, len(evs), err)
		}
		d.apply(f)
	}
	return d.view(), nil
}
