package partition

import (
	"cmp"
	"slices"
)

// ActiveProducer is what a partition knows of a producer (KIP-664).
type ActiveProducer struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1 if no batch of the epoch is known
	LastTime         int64 // when it last appended, or had a marker, ms
	CoordinatorEpoch int32 // of its last marker, -1 if it had none
	TxnStart         int64 // the first offset of its open transaction, -1 if it has none
}

// Producers are those that the partition knows of, by ID.
func (p *Partition) Producers() []ActiveProducer {
	p.mu.Lock()
	out := make([]ActiveProducer, 0, len(p.mu.producers.byID))
	for _, x := range p.mu.producers.byID {
		last := x.newest()
		out = append(out, ActiveProducer{ID: x.id, Epoch: last.epoch, LastSequence: x.lastSequence(), LastTime: x.active,
			CoordinatorEpoch: last.coord - 1, TxnStart: last.txn - 1})
	}
	p.mu.Unlock()
	slices.SortFunc(out, func(a, b ActiveProducer) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
