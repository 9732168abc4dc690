package txnshard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// driveLocked has an ending transaction driven to its end, unless it is already.
func (s *Shard) driveLocked(id string) {
	if s.mu.ending[id] != nil {
		return
	}
	done := make(chan struct{})
	if s.spawnLocked(func() { s.drive(id) }) {
		s.mu.ending[id] = done
	}
}

// drive is the goroutine of one transactional ID while a transaction of it is ending.
func (s *Shard) drive(id string) {
	for s.ctx.Err() == nil {
		if t := s.txn(id); t != nil && t.State.Ending() {
			s.finish(s.ctx, t)
		}
		// Whoever commits the next end looks here under the same lock.
		s.mu.Lock()
		if t := s.txn(id); t == nil || !t.State.Ending() {
			close(s.mu.ending[id])
			delete(s.mu.ending, id)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

// parts are those of a transaction that have not acknowledged its end.
type parts struct {
	partitions []txns.Partition
	groups     []int32
}

func (p parts) none() bool { return len(p.partitions)+len(p.groups) == 0 }

func (p *parts) add(q parts) {
	p.partitions = append(p.partitions, q.partitions...)
	p.groups = append(p.groups, q.groups...)
}

// finish makes an ending transaction complete, or returns when the shard is left.
func (s *Shard) finish(ctx context.Context, t *txns.Txn) {
	left := parts{t.Partitions, t.Groups}
	p := pace{s: s, id: t.ID}
	for !left.none() {
		moved := s.moved()
		var err error
		if left, err = s.deliver(ctx, t, left); !left.none() && !p.wait(ctx, moved, err) {
			return
		}
	}
	for t.Fencing {
		err := s.fence(ctx, current(t))
		if err == nil {
			break
		}
		if !p.wait(ctx, nil, err) {
			return
		}
	}
	for {
		_, err := s.w.Publish(ctx, "transaction complete", func(st *txns.Shard) ([]metalog.Event, error) {
			now := st.Txn(t.ID)
			if now == nil || !now.Equal(t) {
				return nil, nil
			}
			return txns.NewEvents(&txns.TxnChanged{Txn: *complete(now, s.nowMs())})
		})
		if err == nil || !p.wait(ctx, nil, err) {
			return
		}
	}
}

func (s *Shard) moved() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.moved
}

// errNoLeader is why a part could not be told: nobody leads it, or nobody known.
var errNoLeader = errors.New("nobody that the view knows leads it")

// deliver sends a transaction's end to all that are left, at once, and returns those that have
// not acknowledged, with one reason.
func (s *Shard) deliver(ctx context.Context, t *txns.Txn, left parts) (rest parts, why error) {
	byBroker, rest, why := s.route(ctx, left)
	sent := make([]*delivery, 0, len(byBroker))
	for _, to := range slices.Sorted(maps.Keys(byBroker)) {
		ps := byBroker[to]
		d := &delivery{parts: *ps, done: make(chan struct{}), req: MarkerRequest{Producer: current(t), Commit: outcome(t.State),
			CoordinatorEpoch: s.epoch, Version: t.Version, Partitions: ps.partitions, Groups: ps.groups}}
		if s.send(to, d) {
			sent = append(sent, d)
		} else {
			rest.add(*ps)
		}
	}
	for _, d := range sent {
		select {
		case <-d.done:
		case <-ctx.Done():
			return left, ctx.Err()
		}
		rest.add(d.failed)
		why = errors.Join(why, d.err)
	}
	return rest, why
}

// route says who leads each part. What is deleted needs nothing; rest is what nobody leads.
func (s *Shard) route(ctx context.Context, left parts) (byBroker map[int32]*parts, rest parts, why error) {
	view := s.opt.View()
	byBroker = map[int32]*parts{}
	to := func(leader int32) *parts {
		if !view.Alive(leader) {
			why = errNoLeader
			return &rest
		}
		if byBroker[leader] == nil {
			byBroker[leader] = &parts{}
		}
		return byBroker[leader]
	}
	gone := map[projections.TopicID]bool{}
	for _, p := range left.partitions {
		topic := view.TopicByID(p.Topic)
		if topic == nil {
			is, asked := gone[p.Topic]
			if !asked {
				is = s.deleted(ctx, view, p.Topic)
				gone[p.Topic] = is
			}
			if !is {
				why = errNoLeader
				rest.partitions = append(rest.partitions, p)
			}
			continue
		}
		dst := to(leaderOf(topic.Partitions, p.Index))
		dst.partitions = append(dst.partitions, p)
	}
	for _, g := range left.groups {
		dst := to(leaderOf(view.Shards(projections.ShardGroups), g))
		dst.groups = append(dst.groups, g)
	}
	return byBroker, rest, why
}

func leaderOf(ps []projections.Partition, index int32) int32 {
	if index < 0 || int(index) >= len(ps) {
		return projections.NoLeader
	}
	return ps[index].Leader
}

// deleted reports that a topic is deleted for certain.
func (s *Shard) deleted(ctx context.Context, view *projections.Cluster, id projections.TopicID) bool {
	if _, ok := view.Removing()[id]; ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.MarkerTimeout)
	defer cancel()
	gone, err := s.opt.Deleted(ctx, id)
	return gone && err == nil
}

// pace spreads the tries of one ending out: 10 ms, doubling, to 1 s.
type pace struct {
	s     *Shard
	id    string
	tries int
}

const (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
	// loud is every how many tries people are told.
	loud = 30
)

// wait waits for the next try's turn, or for the view to change, and reports false when the
// shard is left.
func (p *pace) wait(ctx context.Context, moved <-chan struct{}, why error) bool {
	if p.tries++; p.tries%loud == 0 {
		p.s.opt.Log.Warn("a transaction's end is not known everywhere yet", "shard", p.s.name, "id", p.id, "tries", p.tries, "err", why)
	}
	timer := time.NewTimer(min(firstPause<<min(p.tries-1, 10), lastPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-moved:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
