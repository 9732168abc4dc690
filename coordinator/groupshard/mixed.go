package groupshard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// Members of the classic protocol in a group of the other one (online migration, KIP-848).
// Such a group has no leader and nothing in memory but deadlines: a member is told at its
// heartbeats to join anew, and finds its assignment at its sync.

// isConsumer reports a group that has members of the next-generation protocol.
func isConsumer(g *groups.Group) bool {
	return g != nil && g.Consumer != nil && len(g.Consumer.Members) > 0
}

// isClassic reports a group whose committed members are of the classic protocol.
func isClassic(g *groups.Group) bool {
	return g != nil && g.Classic != nil && len(g.Classic.Members) > 0
}

// seenBy is a group as the next-generation protocol is to see it: with the classic members
// that it has now, which may not be committed yet.
func (s *Shard) seenBy(g *groups.Group, id string) *groups.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.live[id]
	if l == nil || isConsumer(g) {
		return g
	}
	c := l.g.Membership()
	if len(c.Members) == 0 {
		return g
	}
	seen := groups.Group{ID: id}
	if g != nil {
		seen = *g
		c.Members = withCommitted(c, g.Classic)
	}
	seen.Classic, seen.Consumer = &c, nil
	return &seen
}

// withCommitted are the members with what is committed for this generation: memory learns
// of an assignment only after its commit, and then the member is told that it has it.
func withCommitted(c groups.Classic, committed *groups.Classic) []groups.ClassicMember {
	if committed == nil || committed.Generation != c.Generation {
		return c.Members
	}
	ms := slices.Clone(c.Members)
	for i := range ms {
		for _, m := range committed.Members {
			if m.ID == ms[i].ID {
				ms[i].Assignment = m.Assignment
			}
		}
	}
	return ms
}

// turned settles what is in memory with what is committed, after a group may have changed
// its protocol: who waits under the classic one is to join anew, and who is left under it
// alone is rebalanced.
func (s *Shard) turned(id string) {
	g, now := s.group(id), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if g == nil {
		s.countConsumerLocked(id, nil)
	} else {
		s.countConsumerLocked(id, g.Consumer)
	}
	l := s.mu.live[id]
	switch {
	case s.mu.ended:
	case l != nil && isConsumer(g):
		s.closeLocked(l, kerr.RebalanceInProgress)
		s.watchMembersLocked(s.opt.View(), g, now) // one that is dead already would have no deadline else
	case l == nil && isClassic(g):
		l = s.makeLiveLocked(id, g.Classic, now)
		l.g.Rebalance(now)
		s.settleLocked(l)
	}
}

// closeLocked ends a group's life under the classic protocol here.
func (s *Shard) closeLocked(l *live, err error) {
	l.dismissLocked(err)
	delete(s.mu.live, l.id)
	s.countLocked(l)
	s.mu.timers.Drop(timerKey{kind: classicTimer, group: l.id})
}

func (s *Shard) joinConsumer(ctx context.Context, group string, r classic.JoinRequest) (a classic.JoinAnswer) {
	cfg := s.config(group)
	if r.SessionTimeout < cfg.Classic.MinSession || r.SessionTimeout > cfg.Classic.MaxSession {
		return classic.JoinAnswer{JoinResponse: classic.JoinResponse{MemberID: r.MemberID, Generation: -1}, Err: kerr.InvalidSessionTimeout}
	}
	in := consumer.JoinRequest{GroupID: group, MemberID: r.MemberID, NewID: uuid.NewString(), InstanceID: r.InstanceID, ClientID: r.ClientID,
		Host: r.Host, ProtocolType: r.ProtocolType, Protocols: r.Protocols, SessionTimeout: r.SessionTimeout,
		RebalanceTimeout: r.RebalanceTimeout, RequireKnownID: r.RequireKnownID}
	var out consumer.JoinResponse
	err := s.publishMatched(ctx, "group "+group, group, func(g *groups.Group, view *projections.Cluster, cfg consumer.Config) (fs []groups.Fact, err error) {
		if !isConsumer(g) {
			return nil, fmt.Errorf("%w: group %s has changed its protocol", kerr.RebalanceInProgress, group)
		}
		fs, out, err = consumer.ClassicJoin(g, view, cfg, s.opt.Now(), in)
		return fs, err
	}, func(g *groups.Group, fs []groups.Fact) error {
		err := s.weigh(g, group, r.Tenant, fs)
		if err == nil {
			s.begin(timerKey{sessionTimer, group, out.MemberID}, r.SessionTimeout)
		}
		return err
	})
	a.MemberID, a.Generation, a.ProtocolType, a.Protocol = out.MemberID, out.Generation, r.ProtocolType, out.Protocol
	if err != nil {
		a.Generation, a.Err = -1, err
		return a
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armLocked(timerKey{sessionTimer, group, out.MemberID}, now.Add(r.SessionTimeout))
	s.armLocked(timerKey{rebalanceTimer, group, out.MemberID}, now.Add(max(r.RebalanceTimeout, r.SessionTimeout)))
	s.forgetLocked(group, out.Replaced)
	return a
}

// forgetLocked drops the deadlines of a member that is gone.
func (s *Shard) forgetLocked(group, member string) {
	if member != "" {
		s.mu.timers.Drop(timerKey{sessionTimer, group, member})
		s.mu.timers.Drop(timerKey{rebalanceTimer, group, member})
	}
}

func (s *Shard) syncConsumer(g *groups.Group, r classic.SyncRequest) (a classic.SyncAnswer) {
	in := consumer.SyncRequest{MemberID: r.MemberID, InstanceID: r.InstanceID, Generation: r.Generation, ProtocolType: r.ProtocolType, Protocol: r.Protocol}
	a.Protocol, a.Assignment, a.Err = consumer.ClassicSync(g, s.opt.View(), in)
	a.ProtocolType = "consumer"
	s.heardClassic(g, r.MemberID, a.Err)
	if a.Err == nil {
		s.mu.Lock()
		s.mu.timers.Drop(timerKey{rebalanceTimer, g.ID, r.MemberID})
		s.mu.Unlock()
	}
	return a
}

func (s *Shard) heartbeatConsumer(g *groups.Group, member string, instance *string, generation int32) error {
	view := s.opt.View()
	err := consumer.ClassicHeartbeat(g, view, s.consumerConfig(view, g.ID), member, instance, generation)
	s.heardClassic(g, member, err)
	return err
}

// heardClassic begins a classic member's session anew, and, where it is told to join anew,
// the time that it has for that.
func (s *Shard) heardClassic(g *groups.Group, member string, err error) {
	m := g.Consumer.Members[member]
	if m == nil || m.Classic == nil || err != nil && !errors.Is(err, kerr.RebalanceInProgress) {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return
	}
	s.armLocked(timerKey{sessionTimer, g.ID, member}, now.Add(m.Classic.SessionTimeout))
	if k := (timerKey{rebalanceTimer, g.ID, member}); err != nil && !s.mu.timers.Has(k) {
		s.armLocked(k, now.Add(m.RebalanceTimeout))
	}
}

func (s *Shard) leaveConsumer(ctx context.Context, group string, ms []classic.LeaveMember) (errs []error, err error) {
	in := make([]consumer.LeaveMember, len(ms))
	for i, m := range ms {
		in[i] = consumer.LeaveMember{MemberID: m.MemberID, InstanceID: m.InstanceID}
	}
	err = s.publishMatched(ctx, "group "+group, group, func(g *groups.Group, view *projections.Cluster, cfg consumer.Config) (fs []groups.Fact, err error) {
		if !isConsumer(g) {
			return nil, fmt.Errorf("%w: group %s has changed its protocol", kerr.UnknownMemberID, group)
		}
		fs, errs = consumer.ClassicLeave(g, view, cfg, s.opt.Now(), in)
		return fs, nil
	}, nil)
	if err == nil {
		s.turned(group)
	}
	return errs, err
}
