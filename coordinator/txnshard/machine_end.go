package txnshard

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/txns"
)

// epochRaising is the transaction version from which on every end raises the epoch.
const epochRaising = 2

// end is what an EndTxn makes of a transaction: t itself where it was ended so before.
func end(t *txns.Txn, id string, who Producer, commit bool, version int8, fresh, now int64) (*txns.Txn, error) {
	if t == nil {
		return nil, mapping(id, who.ID)
	}
	if version < epochRaising {
		return endSameEpoch(t, who, commit, now)
	}
	// An end that is asked for again has the epoch from before the end. The same epoch would
	// mean the next transaction.
	again := who.ID == t.ProducerID && int(who.Epoch)+1 == int(t.Epoch) && who.Epoch == t.LastEpoch
	replaced := who.ID == t.PrevProducerID && who.Epoch == lastEpoch && t.Epoch == 0 && who.Epoch == t.LastEpoch
	if who.ID != t.ProducerID && !replaced {
		return nil, mapping(id, who.ID)
	}
	is := who == current(t)
	complete := t.State == txns.CompleteCommit || t.State == txns.CompleteAbort
	switch {
	case t.State.Ending() && again:
		if outcome(t.State) != commit {
			return nil, invalidState(t, commit)
		}
		return nil, concurrent(t)
	case complete && (again || replaced):
		if outcome(t.State) != commit {
			return nil, invalidState(t, commit)
		}
		return t, nil
	case !is:
		return nil, fenced(t, who)
	case t.State.Ending(): // it was answered already, and is not known everywhere yet
		return nil, concurrent(t)
	case t.State != txns.Ongoing && commit:
		return nil, invalidState(t, commit)
	}
	return prepare(t, commit, version, fresh, now)
}

// endSameEpoch is end before transaction version 2.
func endSameEpoch(t *txns.Txn, who Producer, commit bool, now int64) (*txns.Txn, error) {
	switch {
	case who.ID != t.ProducerID:
		return nil, mapping(t.ID, who.ID)
	case who.Epoch != t.Epoch:
		return nil, fenced(t, who)
	case t.State == txns.Ongoing:
		return prepare(t, commit, 0, txns.NoProducer, now)
	case t.State == txns.Empty || outcome(t.State) != commit:
		return nil, invalidState(t, commit)
	case t.State.Ending():
		return nil, concurrent(t)
	}
	return t, nil
}

// outcome is how a transaction that is ending or complete has ended.
func outcome(s txns.State) (commit bool) { return s == txns.PrepareCommit || s == txns.CompleteCommit }

func invalidState(t *txns.Txn, commit bool) error {
	verb := "aborted"
	if commit {
		verb = "committed"
	}
	return fmt.Errorf("%w: %q is in state %s and cannot be %s", kerr.InvalidTxnState, t.ID, t.State, verb)
}

// prepare decides the end of a transaction that is open, or was never begun.
func prepare(t *txns.Txn, commit bool, version int8, fresh, now int64) (*txns.Txn, error) {
	n := changed(t, now)
	n.State, n.Version = txns.PrepareAbort, version
	if commit {
		n.State = txns.PrepareCommit
	}
	if t.State != txns.Ongoing {
		n.Started = now
	}
	n.PrevProducerID = txns.NoProducer
	if version < epochRaising {
		return n, nil
	}
	if exhausted(t.Epoch) {
		if fresh == txns.NoProducer {
			return nil, errNeedID
		}
		n.NextProducerID = fresh
	}
	n.LastEpoch = t.Epoch
	n.Epoch = t.Epoch + min(1, math.MaxInt16-t.Epoch)
	return n, nil
}

// complete is an ending transaction when everybody knows of the end.
func complete(t *txns.Txn, now int64) *txns.Txn {
	n := changed(t, now)
	n.State = txns.CompleteAbort
	if outcome(t.State) {
		n.State = txns.CompleteCommit
	}
	n.Partitions, n.Groups, n.Fencing = nil, nil, false
	if t.NextProducerID != txns.NoProducer {
		n.PrevProducerID, n.ProducerID, n.NextProducerID = t.ProducerID, t.NextProducerID, txns.NoProducer
		n.Epoch = 0
	}
	return n
}

// successor is the producer that may begin the next transaction.
func successor(t *txns.Txn) Producer {
	if t.NextProducerID != txns.NoProducer {
		return Producer{t.NextProducerID, 0}
	}
	return current(t)
}

// forgettable reports a transactional ID that has been idle for too long.
func forgettable(t *txns.Txn, now, after int64) bool { return !t.Open() && now-t.Updated >= after }
