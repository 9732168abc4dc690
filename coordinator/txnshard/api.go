package txnshard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/txns"
)

// InitProducerID gives a transactional ID's producer its ID and an epoch that nobody had, and
// fences all before it. who is {-1, -1}, or the producer that goes on after an error (KIP-360).
// An open transaction is aborted first; if that takes time the error is
// kerr.ConcurrentTransactions.
func (s *Shard) InitProducerID(ctx context.Context, id string, timeoutMs int32, who Producer) (Producer, error) {
	switch {
	case id == "":
		return nobody, fmt.Errorf("%w: the transactional ID is empty", kerr.InvalidRequest)
	case timeoutMs <= 0 || time.Duration(timeoutMs)*time.Millisecond > s.opt.MaxTimeout:
		return nobody, fmt.Errorf("%w: %d ms", kerr.InvalidTransactionTimeout, timeoutMs)
	case (who.ID < 0) != (who.Epoch < 0):
		return nobody, fmt.Errorf("%w: producer %d with epoch %d", kerr.InvalidRequest, who.ID, who.Epoch)
	case who.ID < 0:
		who = nobody
	}
	n, err := s.awaitEnd(ctx, id, func(ctx context.Context) (*txns.Txn, error) {
		n, err := s.change(ctx, "producer of a transactional ID", id, func(t *txns.Txn, fresh, now int64) (*txns.Txn, error) {
			return initProducer(t, id, timeoutMs, who, fresh, now)
		})
		if err == nil && n.State.Ending() {
			err = concurrent(n)
		}
		return n, err
	})
	if err != nil {
		return nobody, err
	}
	if err := s.fenceBefore(ctx, n); err != nil {
		return nobody, clientError(err)
	}
	return current(n), nil
}

// fenceBefore fences whoever had the transactional ID before.
func (s *Shard) fenceBefore(ctx context.Context, t *txns.Txn) error {
	if t.PrevProducerID != txns.NoProducer {
		if err := s.fence(ctx, Producer{t.PrevProducerID, math.MaxInt16}); err != nil {
			return err
		}
	}
	if t.Epoch == 0 {
		return nil
	}
	return s.fence(ctx, current(t))
}

func (s *Shard) fence(ctx context.Context, p Producer) error {
	if e, ok := s.opt.View().FencedEpoch(p.ID); ok && e >= p.Epoch {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.CommitTimeout)
	defer cancel()
	if err := s.opt.Fence(ctx, p.ID, p.Epoch); err != nil {
		return fmt.Errorf("%w: fence producer %d below epoch %d: %w", kerr.CoordinatorNotAvailable, p.ID, p.Epoch, err)
	}
	return nil
}

// Add makes partitions and shards of groups parts of the producer's transaction, which begins
// with the first.
func (s *Shard) Add(ctx context.Context, a Add) error {
	if a.ID == "" {
		return fmt.Errorf("%w: the transactional ID is empty", kerr.InvalidRequest)
	}
	_, err := s.awaitEnd(ctx, a.ID, func(ctx context.Context) (*txns.Txn, error) {
		return s.change(ctx, "parts of a transaction", a.ID, func(t *txns.Txn, _, now int64) (*txns.Txn, error) { return add(t, a, now) })
	})
	return err
}

// Verify says of each partition, then of each shard of groups, whether it is part of the
// producer's open transaction: nil or kerr.TransactionAbortable.
func (s *Shard) Verify(ctx context.Context, a Add) ([]error, error) {
	if a.ID == "" {
		return nil, fmt.Errorf("%w: the transactional ID is empty", kerr.InvalidRequest)
	}
	t, err := s.fresh(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	return verify(t, a)
}

// fresh is the transaction as it was committed at an instant after the call, nil if there is none.
func (s *Shard) fresh(ctx context.Context, id string) (*txns.Txn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.CommitTimeout)
	defer cancel()
	t := s.txn(id)
	return t, s.confirm(ctx)
}

// End commits or aborts the producer's transaction. From transaction version 2 on the answer is
// who begins the next one, and an end that was asked for before is answered as it was. What is
// committed when it returns is the outcome; the markers are yet to be written.
func (s *Shard) End(ctx context.Context, id string, who Producer, commit bool, version int8) (Producer, error) {
	if id == "" {
		return nobody, fmt.Errorf("%w: the transactional ID is empty", kerr.InvalidRequest)
	}
	n, err := s.awaitEnd(ctx, id, func(ctx context.Context) (*txns.Txn, error) {
		return s.change(ctx, "end of a transaction", id, func(t *txns.Txn, fresh, now int64) (*txns.Txn, error) {
			return end(t, id, who, commit, version, fresh, now)
		})
	})
	if err != nil {
		return nobody, err
	}
	return successor(n), nil
}

// awaitEnd calls f once more when a transaction that was ending is complete, if that does not
// take long. A client would come again too, but later than that.
func (s *Shard) awaitEnd(ctx context.Context, id string, f func(context.Context) (*txns.Txn, error)) (*txns.Txn, error) {
	n, err := s.bounded(ctx, f)
	if !errors.Is(err, kerr.ConcurrentTransactions) {
		return n, err
	}
	s.mu.Lock()
	done := s.mu.ending[id]
	s.mu.Unlock()
	if done != nil {
		timer := time.NewTimer(s.opt.EndWait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			return n, err
		case <-ctx.Done():
			return n, err
		case <-s.ctx.Done():
			return n, err
		}
	}
	return s.bounded(ctx, f)
}

// bounded has f wait no longer than the volume may take.
func (s *Shard) bounded(ctx context.Context, f func(context.Context) (*txns.Txn, error)) (*txns.Txn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.CommitTimeout)
	defer cancel()
	return f(ctx)
}

// Describe returns the transaction of a transactional ID. The error wraps
// kerr.TransactionalIDNotFound where there is none.
func (s *Shard) Describe(ctx context.Context, id string) (*txns.Txn, error) {
	t, err := s.fresh(ctx, id)
	if err == nil && t == nil {
		err = fmt.Errorf("%w: %q", kerr.TransactionalIDNotFound, id)
	}
	return t, err
}

// Filter says which transactional IDs are listed: those that meet all that is set.
type Filter struct {
	States    []txns.State // any of them
	Producers []int64      // any of them
	// OpenFor leaves out what began less long ago; negative if not set. What has not begun
	// stays, as with Kafka.
	OpenFor time.Duration
	Match   func(id string) bool
}

// List returns transactions by transactional ID, as of an instant after the call.
func (s *Shard) List(ctx context.Context, f Filter) ([]*txns.Txn, error) {
	st := s.w.Committed().State
	ctx, cancel := context.WithTimeout(ctx, s.opt.CommitTimeout)
	defer cancel()
	if err := s.confirm(ctx); err != nil {
		return nil, err
	}
	var out []*txns.Txn
	now := s.nowMs()
	for t := range st.Txns() {
		if f.passes(t, now) {
			out = append(out, t)
		}
	}
	return out, nil
}

func (f Filter) passes(t *txns.Txn, now int64) bool {
	return (len(f.States) == 0 || slices.Contains(f.States, t.State)) &&
		(len(f.Producers) == 0 || slices.Contains(f.Producers, t.ProducerID)) &&
		(f.OpenFor < 0 || t.Started == txns.NotStarted || now-t.Started > f.OpenFor.Milliseconds()) &&
		(f.Match == nil || f.Match(t.ID))
}
