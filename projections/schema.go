package projections

import (
	"fmt"

	"kaas.dev/kaas/metalog"
)

// ClusterSchema tells metalog how the cluster stream is folded.
func ClusterSchema() *metalog.Schema[*Cluster] {
	return &metalog.Schema[*Cluster]{New: NewCluster, Apply: Apply, Encode: Encode, Decode: Decode, Known: Known}
}

// Apply returns the view after a batch of events. An event of an unknown type is
// left out; one whose bytes do not decode is an error and nothing is applied.
func Apply(c *Cluster, evs []metalog.Event) (*Cluster, error) {
	d := newDraft(c)
	for i, ev := range evs {
		if !Known(ev) {
			continue
		}
		f, err := DecodeEvent(ev)
		if err != nil {
			return nil, fmt.Errorf("event %d of %d: %w", i+1, len(evs), err)
		}
		f.apply(d)
	}
	return d.view(), nil
}
