package partition

import "context"

// abortedTxns are the transactions that ended with an abort: by producer, from the
// first offset of each to its marker.
type abortedTxns map[int64][]txnRange

type txnRange struct{ first, marker int64 }

// has reports whether a batch's records belong to an aborted transaction.
func (a abortedTxns) has(b batch) bool {
	for _, r := range a[b.producer()] {
		if b.base() >= r.first && b.base() < r.marker {
			return true
		}
	}
	return false
}

// findAbortedTxns are the transactions with records between two offsets that were
// aborted. How each has ended is known below the last stable offset.
func (p *Partition) findAbortedTxns(ctx context.Context, v view, from, upto int64) (abortedTxns, error) {
	list, err := p.abortedBetween(ctx, v, from, upto)
	if err != nil {
		return nil, err
	}
	out := abortedTxns{}
	for _, t := range list {
		out[t.Producer] = append(out[t.Producer], txnRange{t.First, t.Last})
	}
	return out, nil
}

// noteMarkers takes the aborted transactions of segments that are to be rewritten. Each
// goes where its marker goes.
func (c *compaction) noteMarkers(ctx context.Context, group []*segment) error {
	c.markers = map[int64]AbortedTxn{}
	for _, s := range group {
		list, err := c.p.abortsOf(ctx, c.plan.view, s)
		if err != nil {
			return err
		}
		for _, t := range list {
			c.markers[t.Last] = t
		}
	}
	return nil
}
