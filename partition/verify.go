package partition

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Guard stands for one verification of a producer's transaction with its coordinator
// (KIP-890). It is good until a batch or a marker of the producer's transaction has its
// place in the log: a marker that comes between the coordinator's word and the batch makes
// the word worthless.
type Guard uint64

// verification is a transaction that somebody is asking the coordinator about.
type verification struct {
	guard    Guard
	at       int64 // ms
	lowest   int32 // the first sequence that waits: what comes after it must not go before it
	epoch    int16
	implicit bool
}

// StartVerification is for a transactional batch that is about to be appended. Where the
// producer has a transaction open in that epoch, there is nothing to ask. Otherwise the
// caller asks the coordinator, and gives the guard to [Partition.AppendTxn] if the
// partition is part of the transaction. implicit says that asking makes it so (Produce
// from version 12 on): a producer that nothing is known of then begins with sequence 0.
func (p *Partition) StartVerification(producerID int64, epoch int16, sequence int32, implicit bool) (g Guard, needed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ps := &p.mu.producers
	if ps.hasOpen(producerID, epoch) {
		return 0, false
	}
	v, there := ps.verifying[producerID]
	switch {
	case !there:
		p.mu.guards++
		v = verification{guard: p.mu.guards, lowest: sequence, epoch: epoch}
	case epoch > v.epoch || epoch == v.epoch && precedes(sequence, v.lowest):
		v.epoch, v.lowest = epoch, sequence
	}
	v.at, v.implicit = p.cfg().Now().UnixMilli(), implicit
	if ps.verifying == nil {
		ps.verifying = map[int64]verification{}
	}
	ps.verifying[producerID] = v
	p.armExpiry()
	return v.guard, true
}

// precedes compares sequences, which go on with 0 after 2^31-1.
func precedes(a, b int32) bool {
	d := (b - a) & math.MaxInt32
	return d != 0 && d < 1<<30
}

// AppendTxn is [Partition.Append] for a batch whose transaction the coordinator has
// vouched for. Append itself takes a transactional batch only where its transaction is
// open. Both refuse with INVALID_TXN_STATE what would begin one that nobody knows of.
func (p *Partition) AppendTxn(ctx context.Context, data []byte, g Guard) (*Appended, error) {
	return p.append(ctx, data, g)
}

// HasOpenTransaction reports whether the producer has a transaction open in that epoch.
func (p *Partition) HasOpenTransaction(producerID int64, epoch int16) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.producers.hasOpen(producerID, epoch)
}

func (ps *producers) hasOpen(id int64, epoch int16) bool {
	p := ps.byID[id]
	return p != nil && p.newest().txn != 0 && p.newest().epoch == epoch
}

// verified refuses a transactional batch that may not begin a transaction.
func (ps *producers) verified(b batch, g Guard) error {
	if ps.hasOpen(b.producer(), b.prodEpoch()) {
		return nil
	}
	v := ps.verifying[b.producer()]
	switch p := ps.byID[b.producer()]; {
	case g == 0 || v.guard != g:
		return fmt.Errorf("%w: producer %d has no transaction open here", kerr.InvalidTxnState, b.producer())
	case v.implicit && b.sequence() != 0 && (p == nil || len(lastFive(p.seen)) == 0):
		return fmt.Errorf("%w: producer %d begins with sequence %d, not 0", kerr.OutOfOrderSequenceNumber, b.producer(), b.sequence())
	case b.prodEpoch() == v.epoch && precedes(v.lowest, b.sequence()):
		return fmt.Errorf("%w: producer %d sends sequence %d, and %d has not come", kerr.OutOfOrderSequenceNumber, b.producer(), b.sequence(), v.lowest)
	}
	return nil
}

// fenced refuses a batch of an older epoch than its producer is fenced to in the cluster.
// Markers are not held against it: what ends a transaction was decided by who owns the
// producer's epoch.
func (p *Partition) fenced(b batch) error {
	if p.cfg().Fenced == nil || b.producer() < 0 {
		return nil
	}
	if least, ok := p.cfg().Fenced(b.producer()); ok && b.prodEpoch() < least {
		return fmt.Errorf("%w: producer %d is fenced to epoch %d, the batch has %d", kerr.InvalidProducerEpoch, b.producer(), least, b.prodEpoch())
	}
	return nil
}

// breakGuard takes the coordinator's word back where a marker may be the end of what it was
// about. From transaction version 2 on a marker ends transactions of lower epochs: who has its
// epoch has asked for the next one.
func (ps *producers) breakGuard(m Marker) {
	if v, there := ps.verifying[m.ProducerID]; there && (v.epoch < m.ProducerEpoch || v.epoch == m.ProducerEpoch && m.Version < 2) {
		delete(ps.verifying, m.ProducerID)
	}
}

// dropGuards forgets verifications that nobody came back from.
func (ps *producers) dropGuards(now int64, idle time.Duration) {
	for id, v := range ps.verifying {
		if now-v.at >= idle.Milliseconds() {
			delete(ps.verifying, id)
		}
	}
}
