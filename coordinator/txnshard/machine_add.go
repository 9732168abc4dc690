package txnshard

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/txns"
)

// Add are partitions, and shards of consumer groups, that a producer's transaction is to have
// as parts.
type Add struct {
	ID         string // transactional ID
	Producer   Producer
	Partitions []txns.Partition
	Groups     []int32
}

// add is what adding parts makes of a transaction: t itself where it has them all. It opens one
// that is not open.
func add(t *txns.Txn, a Add, now int64) (*txns.Txn, error) {
	switch {
	case t == nil:
		return nil, mapping(a.ID, a.Producer.ID)
	case t.State.Ending():
		// First of all: the producer may have its next epoch, or ID, already.
		return nil, concurrent(t)
	case a.Producer.ID != t.ProducerID:
		return nil, mapping(a.ID, a.Producer.ID)
	case a.Producer.Epoch != t.Epoch:
		return nil, fenced(t, a.Producer)
	}
	ps := union(t.Partitions, a.Partitions, txns.Partition.Compare)
	gs := union(t.Groups, a.Groups, func(a, b int32) int { return int(a) - int(b) })
	if len(ps) == len(t.Partitions) && len(gs) == len(t.Groups) {
		return t, nil
	}
	n := changed(t, now)
	if t.State != txns.Ongoing {
		n.State, n.Started, n.PrevProducerID = txns.Ongoing, now, txns.NoProducer
	}
	n.Partitions, n.Groups = ps, gs
	return n, nil
}

// union has what is in a list that is in order or in another, in order: a new slice where
// anything is new.
func union[T any](have, more []T, compare func(a, b T) int) []T {
	out := have
	for _, x := range more {
		i, ok := slices.BinarySearchFunc(out, x, compare)
		switch {
		case ok:
		case len(out) == len(have):
			out = slices.Insert(slices.Clone(have), i, x)
		default:
			out = slices.Insert(out, i, x)
		}
	}
	return out
}

// verify says of each partition, and then of each shard of groups, whether it is part of the
// producer's open transaction: nil or kerr.TransactionAbortable.
func verify(t *txns.Txn, a Add) ([]error, error) {
	switch {
	case t == nil || a.Producer.ID != t.ProducerID:
		return nil, mapping(a.ID, a.Producer.ID)
	case a.Producer.Epoch != t.Epoch:
		return nil, fenced(t, a.Producer)
	case t.State.Ending():
		return nil, concurrent(t)
	}
	errs := make([]error, 0, len(a.Partitions)+len(a.Groups))
	for _, p := range a.Partitions {
		errs = append(errs, partOf(t.Has(p)))
	}
	for _, g := range a.Groups {
		errs = append(errs, partOf(t.HasGroups(g)))
	}
	return errs, nil
}

func partOf(ok bool) error {
	if ok {
		return nil
	}
	return kerr.TransactionAbortable
}
