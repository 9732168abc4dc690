package txnshard

import (
	"context"
	"time"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/txns"
)

// begun is an open transaction and when this owner saw it for the first time, by a clock that
// never steps.
type begun struct {
	producer Producer
	started  int64 // as stored
	at       time.Time
}

// run looks for what is overdue, until the shard is left.
func (s *Shard) run() {
	abort := time.NewTicker(s.opt.AbortEvery)
	defer abort.Stop()
	clean := time.NewTicker(s.opt.CleanEvery)
	defer clean.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.w.Done():
			s.cancel() // what is being driven is another owner's
			return
		case <-abort.C:
			s.sweep(time.Now())
		case <-clean.C:
			s.forget(s.ctx)
		}
	}
}

// sweep aborts what has been open for too long, and takes care that what is ending is driven.
func (s *Shard) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[string]begun{}
	for t := range s.w.Committed().State.Txns() {
		switch {
		case t.State.Ending():
			s.driveLocked(t.ID)
		case t.State == txns.Ongoing:
			b := s.beganLocked(t, now)
			seen[t.ID] = b
			if now.Sub(b.at) >= time.Duration(t.Timeout)*time.Millisecond {
				s.expireLocked(b, t.ID)
			}
		}
	}
	s.mu.begun = seen
}

// beganLocked is when a transaction was seen for the first time: now, unless it was before.
func (s *Shard) beganLocked(t *txns.Txn, now time.Time) begun {
	b := begun{producer: current(t), started: t.Started, at: now}
	if old, ok := s.mu.begun[t.ID]; ok && old.producer == b.producer && old.started == b.started {
		return old
	}
	return b
}

func (s *Shard) noteBegunLocked(t *txns.Txn) { s.mu.begun[t.ID] = s.beganLocked(t, time.Now()) }

// expireLocked has a transaction aborted, unless that is under way.
func (s *Shard) expireLocked(b begun, id string) {
	if !s.mu.expiring[id] && s.spawnLocked(func() { s.expire(s.ctx, b, id) }) {
		s.mu.expiring[id] = true
	}
}

// expire aborts a transaction that timed out, unless it is another by now.
func (s *Shard) expire(ctx context.Context, b begun, id string) {
	_, err := s.change(ctx, "transaction timed out", id, func(t *txns.Txn, fresh, now int64) (*txns.Txn, error) {
		if t == nil || t.State != txns.Ongoing || current(t) != b.producer || t.Started != b.started {
			return t, nil
		}
		return expire(t, fresh, now)
	})
	s.mu.Lock()
	delete(s.mu.expiring, id)
	s.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		s.opt.Log.Warn("a transaction that timed out is not aborted yet", "shard", s.name, "id", id, "err", err)
	}
}

// forgetAtOnce is the most IDs that one entry forgets.
const forgetAtOnce = 1000

// forget drops transactional IDs that nobody has used for long. Each is looked at once more
// where the stream orders it.
func (s *Shard) forget(ctx context.Context) {
	after := s.opt.ForgetAfter.Milliseconds()
	var old []string
	for t := range s.w.Committed().State.Txns() {
		if forgettable(t, s.nowMs(), after) {
			old = append(old, t.ID)
		}
	}
	for len(old) > 0 {
		ids := old[:min(len(old), forgetAtOnce)]
		old = old[len(ids):]
		_, err := s.w.Publish(ctx, "transactional IDs forgotten", func(st *txns.Shard) ([]metalog.Event, error) {
			var fs []txns.Fact
			for _, id := range ids {
				if t := st.Txn(id); t != nil && forgettable(t, s.nowMs(), after) {
					fs = append(fs, &txns.TxnRemoved{ID: id})
				}
			}
			return txns.NewEvents(fs...)
		})
		if err != nil {
			s.opt.Log.Warn("idle transactional IDs are not forgotten yet", "shard", s.name, "err", err)
			return // there is another time
		}
	}
}
