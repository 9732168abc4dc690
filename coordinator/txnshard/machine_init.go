package txnshard

import (
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/txns"
)

// Producer is a producer ID with an epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

// nobody stands for no producer.
var nobody = Producer{txns.NoProducer, txns.NoEpoch}

// lastEpoch is the highest that a producer ever gets. The one above is for fencing it.
const lastEpoch = math.MaxInt16 - 1

func exhausted(epoch int16) bool { return epoch >= lastEpoch }

// errNeedID asks for a new producer ID, and for the call to be made again with it.
var errNeedID = errors.New("a new producer ID is needed")

// initProducer is what an InitProducerId makes of a transactional ID; t is nil where there is
// none yet. With who its producer asks for a higher epoch after an error, or for the answer to
// that again (KIP-360). fresh is a producer ID nobody has, or NoProducer.
//
// A transaction that is open is aborted first; whoever asked has to ask again.
func initProducer(t *txns.Txn, id string, timeout int32, who Producer, fresh, now int64) (*txns.Txn, error) {
	if t == nil {
		if fresh == txns.NoProducer {
			return nil, errNeedID
		}
		return &txns.Txn{ID: id, ProducerID: fresh, LastEpoch: txns.NoEpoch, PrevProducerID: txns.NoProducer, NextProducerID: txns.NoProducer,
			State: txns.Empty, Timeout: timeout, Started: txns.NotStarted, Updated: now}, nil
	}
	if who != nobody && !mayInit(t, who) {
		return nil, fenced(t, who)
	}
	switch t.State {
	case txns.PrepareCommit, txns.PrepareAbort:
		return nil, concurrent(t)
	case txns.Ongoing:
		return fence(t, who, fresh, now)
	}
	n := changed(t, now)
	n.State, n.Timeout, n.Started = txns.Empty, timeout, txns.NotStarted
	if who != nobody && who != current(t) {
		return n, nil // it asked before, and gets what it got then
	}
	n.LastEpoch = txns.NoEpoch
	if who != nobody {
		n.LastEpoch = t.Epoch
	}
	switch {
	case !exhausted(t.Epoch):
		n.Epoch++
	case fresh == txns.NoProducer:
		return nil, errNeedID
	default:
		n.PrevProducerID, n.ProducerID, n.Epoch = t.ProducerID, fresh, 0
	}
	return n, nil
}

// mayInit reports whether who is the producer, or was it until something that it asked for
// raised its epoch. Who has a transaction open has had its answer.
func mayInit(t *txns.Txn, who Producer) bool {
	if who == current(t) {
		return true
	}
	same := who.ID == t.ProducerID || who.ID == t.PrevProducerID && exhausted(who.Epoch)
	return same && who.Epoch == t.LastEpoch && t.State != txns.Ongoing
}

func current(t *txns.Txn) Producer { return Producer{t.ProducerID, t.Epoch} }

// changed is a transaction that may be changed.
func changed(t *txns.Txn, now int64) *txns.Txn {
	n := *t
	n.Updated = max(t.Updated, now)
	return &n
}

// fence aborts an open transaction over its producer's head, or for the producer who, which
// then may ask for the raised epoch.
func fence(t *txns.Txn, who Producer, fresh, now int64) (*txns.Txn, error) {
	n, err := prepare(t, false, 2, fresh, now)
	if err == nil && who == nobody {
		n.LastEpoch = txns.NoEpoch
	}
	return n, err
}

// expire aborts a transaction that was open for too long. Its producer may go on with the
// raised epoch once it has heard of it (KIP-588).
func expire(t *txns.Txn, fresh, now int64) (*txns.Txn, error) {
	n, err := prepare(t, false, 2, fresh, now)
	if err == nil {
		n.Fencing = true
	}
	return n, err
}

func fenced(t *txns.Txn, who Producer) error {
	return fmt.Errorf("%w: producer %d of %q is at epoch %d, not %d", kerr.ProducerFenced, who.ID, t.ID, t.Epoch, who.Epoch)
}

func concurrent(t *txns.Txn) error {
	return fmt.Errorf("%w: %q is in state %s", kerr.ConcurrentTransactions, t.ID, t.State)
}

func mapping(id string, producer int64) error {
	return fmt.Errorf("%w: %q does not have producer %d", kerr.InvalidProducerIDMapping, id, producer)
}
