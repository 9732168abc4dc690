package groups

import (
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
	if err := registry.Each(evs, func(f Fact) { d.apply(f) }); err != nil {
		return nil, err
	}
	return d.view(), nil
}
