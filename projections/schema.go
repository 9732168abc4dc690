package projections

import (
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
	if err := registry.Each(evs, func(f Fact) { f.apply(d) }); err != nil {
		return nil, err
	}
	return d.view(), nil
}
