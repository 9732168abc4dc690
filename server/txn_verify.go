package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// TxnPartitions asks the coordinator of a transactional ID whether partitions are part of
// the transaction that a producer has open.
type TxnPartitions struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	// Add has those that are not yet become so (Produce from version 12 on, transaction
	// version 2). Without it they are not part, and the answer is TRANSACTION_ABORTABLE.
	Add        bool
	Partitions []TxnPartition
}

// TxnPartition is one of them.
type TxnPartition struct {
	Topic     string
	TopicID   projections.TopicID
	Partition int32
}

// verifyTxns asks a coordinator, wherever it is, and returns an error or nil for each
// partition: a *kerr.Error, or one that wraps it.
type verifyTxns func(ctx context.Context, ask TxnPartitions) []error

// askTransaction is verifyTxns by whoever coordinates the transaction.
func (s *Server) askTransaction(ctx context.Context, ask TxnPartitions) []error {
	a := txnshard.Add{ID: ask.TransactionalID, Producer: txnshard.Producer{ID: ask.ProducerID, Epoch: ask.ProducerEpoch}}
	for _, p := range ask.Partitions {
		a.Partitions = append(a.Partitions, txns.Partition{Topic: p.TopicID, Index: p.Partition})
	}
	errs, err := s.backend.JoinTxn(ctx, a, !ask.Add)
	if err != nil {
		errs = slices.Repeat([]error{err}, len(ask.Partitions))
	}
	return errs
}

// verifyWait bounds how long a connection's reader waits for a coordinator's word.
const verifyWait = 5 * time.Second

// txnCheck is what was found out about one partition of a transactional request.
type txnCheck struct {
	TxnPartition
	// part is the partition that was looked at, and the only one that counts: one that is
	// opened while the coordinator is asked knows of no guard.
	part  *partition.Partition
	guard partition.Guard
	asked bool // about it, for the transaction begins there
	err   error
}

// checked is what was found out about a partition, or nil.
func (c *produceCall) checked(id projections.TopicID, index int32) *txnCheck {
	for i := range c.checks {
		if k := &c.checks[i]; k.TopicID == id && k.Partition == index {
			return k
		}
	}
	return nil
}

// verifyTxn asks about the partitions on which a transactional request begins its
// transaction.
func (c *produceCall) verifyTxn(ctx context.Context) {
	if c.req.TransactionID == nil || c.badAcks() {
		return
	}
	ask := TxnPartitions{TransactionalID: *c.req.TransactionID, ProducerID: -1, Add: c.req.Version >= 12}
	var mixed error
	for i := range c.req.Topics {
		in := &c.req.Topics[i]
		t := topicOf(c.view, c.req.Version >= 13, in.Topic, in.TopicID)
		if c.refuse(i, t) != nil {
			continue // append will say so
		}
		for j := range in.Partitions {
			b := in.Partitions[j].Records
			if !isTransactional(b) || len(b) < sequenceEnd {
				continue
			}
			at := TxnPartition{Topic: t.Name, TopicID: t.ID, Partition: in.Partitions[j].Partition}
			part, err := c.s.backend.Partition(t.ID, at.Partition)
			if err != nil {
				c.checks = append(c.checks, txnCheck{TxnPartition: at, err: err})
				continue
			}
			id, epoch, sequence := producerOf(b)
			if ask.ProducerID < 0 {
				ask.ProducerID, ask.ProducerEpoch = id, epoch
			}
			if id != ask.ProducerID || epoch != ask.ProducerEpoch {
				mixed = fmt.Errorf("%w: a transactional request is one producer's", kerr.InvalidProducerIDMapping)
			}
			g, needed := part.StartVerification(id, epoch, sequence, ask.Add)
			if needed {
				ask.Partitions = append(ask.Partitions, at)
			}
			c.checks = append(c.checks, txnCheck{TxnPartition: at, part: part, guard: g, asked: needed})
		}
	}
	c.askCoordinator(ctx, ask, mixed)
}

// askCoordinator fills in the errors of those of c.checks that it is asked about.
func (c *produceCall) askCoordinator(ctx context.Context, ask TxnPartitions, refused error) {
	if len(ask.Partitions) == 0 {
		return
	}
	var errs []error
	if refused == nil {
		ctx, cancel := context.WithTimeout(ctx, verifyWait)
		defer cancel()
		verify := c.s.askTransaction
		if v := c.s.verify.Load(); v != nil {
			verify = *v
		}
		errs = verify(ctx, ask)
	}
	n := 0
	for i := range c.checks {
		k := &c.checks[i]
		if !k.asked {
			continue
		}
		if k.err = refused; refused == nil {
			k.err = produceVerdict(errs[n], c.req.Version)
		}
		n++
	}
}

// produceVerdict is a coordinator's answer as a producer may be told it: those that say
// nothing of the transaction are worth another try, which older producers know only by
// NOT_ENOUGH_REPLICAS.
func produceVerdict(err error, version int16) error {
	var ke *kerr.Error
	if err == nil {
		return nil
	}
	if !errors.As(err, &ke) {
		ke = kerr.CoordinatorNotAvailable
	}
	code := ke
	switch ke {
	case kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.NetworkException, kerr.RequestTimedOut:
		code = kerr.NotEnoughReplicas
	case kerr.ConcurrentTransactions:
		if version < 12 {
			code = kerr.NotEnoughReplicas
		}
	case kerr.ProducerFenced:
		code = kerr.InvalidProducerEpoch
	case kerr.TransactionAbortable:
		if version < 11 {
			code = kerr.InvalidTxnState
		}
	}
	return fmt.Errorf("%w: the transaction's coordinator says: %v", code, err)
}

// sequenceEnd is the byte behind a batch's base sequence.
const sequenceEnd = 57

// producerOf reads a batch's producer.
func producerOf(batch []byte) (id int64, epoch int16, sequence int32) {
	return int64(binary.BigEndian.Uint64(batch[43:])), int16(binary.BigEndian.Uint16(batch[51:])), int32(binary.BigEndian.Uint32(batch[53:]))
}
