package txnshard

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/txns"
)

// decide is a step of the machine: what becomes of a transaction, itself if nothing does.
// fresh is a new producer ID, or NoProducer, for which the step may ask with errNeedID.
type decide func(t *txns.Txn, fresh, now int64) (*txns.Txn, error)

// change commits a step and returns the transaction after it. The error has a code that clients
// know. Where nothing changes, the answer rests on a Check begun after the call.
func (s *Shard) change(ctx context.Context, reason, id string, step decide) (*txns.Txn, error) {
	fresh := txns.NoProducer
	for {
		n, same, err := s.commit(ctx, reason, id, fresh, step)
		switch {
		case errors.Is(err, errNeedID) && fresh == txns.NoProducer:
			if fresh, err = s.opt.NewProducerID(ctx); err != nil {
				return nil, clientError(fmt.Errorf("new producer ID: %w", err))
			}
			continue
		case same || forGood(err):
			if cerr := s.confirm(ctx); cerr != nil {
				return nil, cerr
			}
		}
		return n, clientError(err)
	}
}

// forGood reports a refusal that a client does not come back from.
func forGood(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.InvalidTxnState)
}

// commit publishes a step. It runs on when the caller has stopped waiting: what comes to be
// committed is followed up in any case.
func (s *Shard) commit(ctx context.Context, reason, id string, fresh int64, step decide) (n *txns.Txn, same bool, err error) {
	type result struct {
		n    *txns.Txn
		same bool
		err  error
	}
	done := make(chan result, 1)
	ok := s.spawn(func() {
		var r result
		// The step may still run after an error.
		if _, err := s.w.Publish(s.ctx, reason, func(st *txns.Shard) ([]metalog.Event, error) {
			t := st.Txn(id)
			next, err := step(t, fresh, s.nowMs())
			if err != nil {
				return nil, err
			}
			if r.n, r.same = next, next == t; r.same {
				return nil, nil
			}
			return txns.NewEvents(&txns.TxnChanged{Txn: *next})
		}); err != nil {
			done <- result{err: err}
			return
		}
		if !r.same {
			s.follow(r.n)
		}
		done <- r
	})
	if !ok {
		return nil, false, errNotOwner
	}
	select {
	case r := <-done:
		return r.n, r.same, r.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// follow does what is due when a state is committed.
func (s *Shard) follow(t *txns.Txn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.State == txns.Ongoing:
		s.noteBegunLocked(t)
	case t.State.Ending():
		s.driveLocked(t.ID)
	}
}

// confirm is nil if this was the shard's owner at an instant after the call.
func (s *Shard) confirm(ctx context.Context) error {
	if err := s.opt.Check(ctx); err != nil {
		return clientError(err)
	}
	// A handover seals nobody, but it begins with leave.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return errNotOwner
	}
	return clientError(s.w.Err())
}
