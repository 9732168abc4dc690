package groupshard

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/projections/groups"
)

// live is a group under the classic protocol while it has members, or somebody waits to
// become one.
type live struct {
	id string
	g  *classic.Group
	// stores are the memberships to be published, in order; storing reports that somebody
	// is at it.
	stores  []classic.Store
	storing bool
	counted int64 // of its bytes, in the shard's
}

// waiter is who waits for the end of a rebalance.
type waiter struct {
	join chan classic.JoinAnswer // of one element, as is
	sync chan classic.SyncAnswer
}

// dismissLocked answers all who wait with an error, and ends the group here.
func (l *live) dismissLocked(err error) {
	l.g.Close(time.Now(), err)
	l.answer(l.g.Take())
}

// answer gives answers to who waits for them, and returns what else is to be done.
func (l *live) answer(es []classic.Effect) (stores []classic.Store) {
	for _, e := range es {
		switch e := e.(type) {
		case classic.JoinAnswer:
			e.Token.(*waiter).join <- e
		case classic.SyncAnswer:
			e.Token.(*waiter).sync <- e
		case classic.Store:
			stores = append(stores, e)
		}
	}
	return stores
}

// countLocked brings the shard's bytes up to date with a group that has changed, or is gone.
func (s *Shard) countLocked(l *live) {
	n := int64(0)
	if s.mu.live[l.id] == l {
		n = l.g.Bytes()
	}
	s.mu.shares.add(l.id, n-l.counted)
	l.counted = n
}

func (s *Shard) makeLiveLocked(id string, from *groups.Classic, now time.Time) *live {
	l := &live{id: id, g: classic.New(id, from, s.config(id).Classic, now)}
	s.mu.live[id] = l
	return l
}

// liveLocked is the group under the classic protocol, from what is committed of it, or a
// new one.
func (s *Shard) liveLocked(id string, now time.Time) *live {
	if l := s.mu.live[id]; l != nil {
		l.g.Configure(s.config(id).Classic)
		return l
	}
	var from *groups.Classic
	if g := s.group(id); g != nil {
		from = g.Classic
	}
	return s.makeLiveLocked(id, from, now)
}

// settleLocked carries out what the group wants done, and forgets it when nobody is left.
func (s *Shard) settleLocked(l *live) {
	defer s.countLocked(l)
	l.stores = append(l.stores, l.answer(l.g.Take())...)
	if len(l.stores) > 0 && !l.storing {
		l.storing = s.spawnLocked(func() { s.storeAll(l) })
	}
	k := timerKey{kind: classicTimer, group: l.id}
	at, ok := l.g.Deadline()
	if ok {
		s.armLocked(k, at)
		return
	}
	s.mu.timers.Drop(k)
	if l.g.Idle() && s.mu.live[l.id] == l {
		delete(s.mu.live, l.id)
	}
}

// storeAll publishes memberships until there are no more.
func (s *Shard) storeAll(l *live) {
	for {
		s.mu.Lock()
		if len(l.stores) == 0 {
			l.storing = false
			s.mu.Unlock()
			return
		}
		e := l.stores[0]
		l.stores = l.stores[1:]
		s.mu.Unlock()
		s.store(l, e)
	}
}

// store publishes the membership that a rebalance ended with.
func (s *Shard) store(l *live, e classic.Store) {
	err := s.publish(s.ctx, "group "+l.id, func(st *groups.Shard) ([]groups.Fact, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mu.live[l.id] != l || isConsumer(st.Group(l.id)) {
			return nil, fmt.Errorf("%w: group %s has changed its protocol", kerr.RebalanceInProgress, l.id)
		}
		return []groups.Fact{&groups.ClassicGroupChanged{Group: l.id, Time: s.nowMs(), State: e.State}}, nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.live[l.id] == l && !s.mu.ended {
		l.g.Stored(time.Now(), e.ID, err)
		s.settleLocked(l)
	}
}

func (s *Shard) nowMs() int64 { return s.opt.Now().UnixMilli() }

// Join answers a JoinGroup when the rebalance has gathered its members. The answer's error
// is a kerr error.
func (s *Shard) Join(ctx context.Context, group string, r classic.JoinRequest) classic.JoinAnswer {
	w := &waiter{join: make(chan classic.JoinAnswer, 1)}
	r.Token = w
	if isConsumer(s.group(group)) {
		return s.joinConsumer(ctx, group, r)
	}
	err := s.withClassic(group, func(l *live, now time.Time) error {
		if n := l.g.Growth(r); n > 0 && !s.mu.shares.admit(group, r.Tenant, n) {
			return fmt.Errorf("%w: groups take all the memory that they may", kerr.CoordinatorNotAvailable)
		}
		l.g.Join(now, r)
		return nil
	})
	if err != nil {
		return classic.JoinAnswer{Err: err}
	}
	select {
	case a := <-w.join:
		return a
	case <-ctx.Done():
		return classic.JoinAnswer{Err: clientError(ctx.Err())}
	}
}

// Sync answers a SyncGroup when the leader has sent its assignments and they are committed.
func (s *Shard) Sync(ctx context.Context, group string, r classic.SyncRequest) classic.SyncAnswer {
	w := &waiter{sync: make(chan classic.SyncAnswer, 1)}
	r.Token = w
	if g := s.group(group); isConsumer(g) {
		return s.syncConsumer(g, r)
	}
	if err := s.withClassic(group, func(l *live, now time.Time) error { l.g.Sync(now, r); return nil }); err != nil {
		return classic.SyncAnswer{Err: err}
	}
	select {
	case a := <-w.sync:
		return a
	case <-ctx.Done():
		return classic.SyncAnswer{Err: clientError(ctx.Err())}
	}
}

// Heartbeat is a member's sign of life. Errors are kerr's.
func (s *Shard) Heartbeat(_ context.Context, group, member string, instance *string, generation int32) (err error) {
	if g := s.group(group); isConsumer(g) {
		return s.heartbeatConsumer(g, member, instance, generation)
	}
	return s.withClassic(group, func(l *live, now time.Time) error { return l.g.Heartbeat(now, member, instance, generation) })
}

// Leave takes members out, with an error or nil for each, or one for all.
func (s *Shard) Leave(ctx context.Context, group string, ms []classic.LeaveMember) (errs []error, err error) {
	if isConsumer(s.group(group)) {
		return s.leaveConsumer(ctx, group, ms)
	}
	err = s.withClassic(group, func(l *live, now time.Time) error { errs = l.g.Leave(now, ms); return nil })
	return errs, err
}

// withClassic has f use a group under the classic protocol, and carries out what comes of it.
func (s *Shard) withClassic(group string, f func(*live, time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch g := s.group(group); {
	case s.mu.ended || s.w.Err() != nil:
		return errNotOwner
	case isConsumer(g):
		return fmt.Errorf("%w: group %s has changed its protocol", kerr.RebalanceInProgress, group)
	}
	now := time.Now()
	l := s.liveLocked(group, now)
	err := f(l, now)
	s.settleLocked(l)
	return err
}
