package rebuild

import (
	"math"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// fenceTransactions gives every transactional ID another producer, from an ID on, and has
// open transactions aborted; what was decided stays so. It returns the fences of the old
// producers, and the ID after the last it gave.
//
// The brokers drive the ends, as they do with any end that they find in a shard they take
// over. Until then nothing is written to a partition, so that a run which ends halfway
// leaves what it found.
func (r *run) fenceTransactions(c *projections.Cluster, shards []shard[*txns.Shard], next int64) (fs []projections.Fact, after int64, err error) {
	for i := range shards {
		s := &shards[i]
		var changed []txns.Fact
		for t := range s.state.Txns() {
			if f := c.FenceProducer(t.ProducerID, math.MaxInt16, r.at); f != nil {
				fs = append(fs, f)
			}
			if t.State == txns.Ongoing {
				r.out.Aborted++
			}
			changed = append(changed, &txns.TxnChanged{Txn: fence(t, next, r.at.UnixMilli())})
			next++
		}
		evs, err := txns.NewEvents(changed...)
		if err != nil {
			return nil, 0, err
		}
		if s.state, err = txns.Apply(s.state, evs); err != nil {
			return nil, 0, err
		}
	}
	return fs, next, nil
}

// fence is a transactional ID with another producer, at once or when its transaction has ended.
func fence(t *txns.Txn, fresh, now int64) txns.Txn {
	n := *t
	n.Updated = max(now, t.Updated)
	n.LastEpoch, n.PrevProducerID, n.NextProducerID = txns.NoEpoch, txns.NoProducer, txns.NoProducer
	switch {
	case t.State == txns.Ongoing:
		n.State, n.Version, n.NextProducerID = txns.PrepareAbort, 2, fresh
		n.Epoch = t.Epoch + min(1, math.MaxInt16-t.Epoch)
	case t.State.Ending():
		n.NextProducerID = fresh
	default:
		n.State, n.ProducerID, n.Epoch, n.Started = txns.Empty, fresh, 0, txns.NotStarted
	}
	return n
}
