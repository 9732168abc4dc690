package txns

import (
	"math"

	"kaas.dev/kaas/projections/internal/ordered"
)

// Restoration is what comes of restoring an earlier view over the one there is.
type Restoration struct {
	Shard     *Shard
	Fenced    []string // transactional IDs whose epoch is raised
	Aborted   []string // of them, whose open transaction is aborted
	Ended     []string // whose transaction was open then, and has ended since
	Later     int      // that stand at a later epoch or producer ID than then
	Forgotten []string // that were there then, and do not come back
}

// Restore is the shard now, with no producer at an epoch below what it had then.
//
// How a transaction stands is no wish but a fact: markers in the logs say how it has ended,
// and records of one that is open wait for its end. So what is there now stays. An open
// transaction of then is never opened again, and one of now is never lost, which would
// keep its partitions' last stable offset down for good. A transactional ID that was
// forgotten since stays forgotten: its epochs of then may lie below what its producer had
// later, and whoever comes under that ID gets a new producer ID.
//
// Then is ahead of now only where it comes from a file, and the volume was taken back since.
// There the epoch goes above that of then, so that nobody goes on whom the logs do not know
// any more, and an open transaction is aborted for the same reason.
//
// To restore the same over the result changes nothing.
func Restore(then, now *Shard) *Restoration {
	r := &Restoration{}
	d := map[string]ordered.Change[*Txn]{}
	for old := range then.Txns() {
		t := now.Txn(old.ID)
		switch {
		case t == nil:
			r.Forgotten = append(r.Forgotten, old.ID)
			continue
		case old.Open() && !t.Open():
			r.Ended = append(r.Ended, t.ID)
		}
		if old.ProducerID == t.ProducerID && old.Epoch > t.Epoch {
			d[t.ID] = ordered.Change[*Txn]{Value: raised(t, old.Epoch)}
			r.Fenced = append(r.Fenced, t.ID)
			if t.State == Ongoing {
				r.Aborted = append(r.Aborted, t.ID)
			}
		} else if old.ProducerID != t.ProducerID || old.Epoch < t.Epoch {
			r.Later++
		}
	}
	r.Shard = &Shard{now.txns.With(d)}
	return r
}

// raised is a transaction whose producer has to come anew, above an epoch. The highest there
// is, nobody ever gets: who comes under that gets another producer ID.
func raised(t *Txn, above int16) *Txn {
	n := *t
	n.Epoch, n.LastEpoch, n.PrevProducerID = above+min(1, math.MaxInt16-above), NoEpoch, NoProducer
	if t.State == Ongoing {
		n.State, n.Fencing, n.Version = PrepareAbort, true, 2
	}
	return &n
}
