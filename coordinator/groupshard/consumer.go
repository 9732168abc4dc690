package groupshard

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// ConsumerHeartbeat answers a ConsumerGroupHeartbeat (KIP-848). Errors are kerr's.
func (s *Shard) ConsumerHeartbeat(ctx context.Context, r consumer.HeartbeatRequest) (consumer.HeartbeatResponse, error) {
	s.hear(r.GroupID, r.MemberID, time.Now())
	r.NewID = uuid.NewString()
	var resp consumer.HeartbeatResponse
	decide := func(g *groups.Group, view *projections.Cluster, cfg consumer.Config) (fs []groups.Fact, err error) {
		if cfg.Unmatched == nil { // else it is not the request's goroutine that calls
			cfg.Spent = r.Spent
		}
		fs, resp, err = consumer.Heartbeat(s.seenBy(g, r.GroupID), view, cfg, s.opt.Now(), r)
		return fs, err
	}
	// Most change nothing, and need not wait for the volume.
	fs, err := s.match(r.GroupID, decide)
	if err != nil || len(fs) > 0 || s.w.Err() != nil {
		err = s.publishMatched(ctx, "group "+r.GroupID, r.GroupID, decide, func(g *groups.Group, fs []groups.Fact) error {
			err := s.weigh(g, r.GroupID, r.Tenant, fs)
			if err == nil && !resp.Left {
				s.begin(timerKey{sessionTimer, r.GroupID, resp.MemberID}, resp.SessionTimeout)
			}
			return err
		})
	}
	if err != nil {
		return consumer.HeartbeatResponse{}, err
	}
	s.watch(r.GroupID, resp)
	s.turned(r.GroupID)
	return resp, nil
}

// hear begins a member's session anew.
func (s *Shard) hear(group, member string, now time.Time) {
	k := timerKey{sessionTimer, group, member}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.timers.Has(k) && !s.mu.ended {
		s.armLocked(k, now.Add(s.config(group).Consumer.SessionTimeout))
	}
}

// begin sets a deadline that a member is to have even if its request is not answered: what
// is published may be committed later, and its client be gone by then. A deadline of nobody
// does no harm.
func (s *Shard) begin(k timerKey, in time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.ended && !s.mu.timers.Has(k) {
		s.armLocked(k, time.Now().Add(in))
	}
}

// watch sets a member's deadlines as an answer to it has them.
func (s *Shard) watch(group string, r consumer.HeartbeatResponse) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.ended {
		return
	}
	session, revoke := timerKey{sessionTimer, group, r.MemberID}, timerKey{rebalanceTimer, group, r.MemberID}
	if r.Left {
		s.mu.timers.Drop(session)
	} else {
		s.armLocked(session, now.Add(r.SessionTimeout))
	}
	switch {
	case r.RebalanceTimeout == 0:
		s.mu.timers.Drop(revoke)
	case r.RevokesAnew || !s.mu.timers.Has(revoke):
		s.armLocked(revoke, now.Add(r.RebalanceTimeout))
	}
	s.forgetLocked(group, r.Replaced)
}

// watchMembersLocked begins the deadlines of members that are committed.
func (s *Shard) watchMembersLocked(view *projections.Cluster, g *groups.Group, now time.Time) {
	if g.Consumer == nil {
		return
	}
	cfg := s.consumerConfig(view, g.ID)
	for id, m := range g.Consumer.Members {
		s.armLocked(timerKey{sessionTimer, g.ID, id}, now.Add(consumer.SessionTimeout(m, cfg)))
		if m.State == groups.UnrevokedPartitions {
			s.armLocked(timerKey{rebalanceTimer, g.ID, id}, now.Add(m.RebalanceTimeout))
		}
	}
}

// fenceMember takes out a member that was not heard, or did not give up what it must, in
// time. It is tried until it is done, or the member has a deadline again (rule 2).
func (s *Shard) fenceMember(ctx context.Context, k timerKey) {
	for {
		err := s.publishMatched(ctx, "member of "+k.group+" timed out", k.group, func(g *groups.Group, view *projections.Cluster, cfg consumer.Config) ([]groups.Fact, error) {
			if !isConsumer(g) || s.armed(k) {
				return nil, nil
			}
			m := g.Consumer.Members[k.member]
			if m == nil || k.kind == rebalanceTimer && m.Classic == nil && m.State != groups.UnrevokedPartitions {
				return nil, nil
			}
			return consumer.Fence(g, view, cfg, s.opt.Now(), k.member), nil
		}, nil)
		if err == nil {
			s.turned(k.group)
			return
		}
		if !s.retry(ctx) {
			return
		}
		s.opt.Log.Warn("member is not fenced yet", "shard", s.name, "group", k.group, "member", k.member, "err", err)
	}
}

// weighed is what a group of the next-generation protocol was found to take.
type weighed struct {
	of    *groups.Consumer
	bytes int64
}

// weigh refuses facts that make a group larger where the shard has no room for it.
func (s *Shard) weigh(g *groups.Group, id, tenant string, fs []groups.Fact) error {
	var c *groups.Consumer
	if g != nil {
		c = g.Consumer
	}
	growth := consumer.Growth(c, fs)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countConsumerLocked(id, c)
	more := growth
	if l := s.mu.live[id]; l != nil {
		more -= l.counted // it is about to be of this protocol
	}
	if growth > 0 && !s.mu.shares.admit(id, tenant, more) {
		return fmt.Errorf("%w: the members of this shard's groups say too much of themselves", kerr.CoordinatorNotAvailable)
	}
	s.setWeightLocked(id, weighed{nil, s.mu.weights[id].bytes + growth}) // until it is seen what has come of it
	return nil
}

// countConsumerLocked brings the shard's bytes up to date with a group's members.
func (s *Shard) countConsumerLocked(id string, c *groups.Consumer) {
	if w := s.mu.weights[id]; c == nil || w.of != c {
		s.setWeightLocked(id, weighed{c, consumer.Bytes(c)})
	}
}

func (s *Shard) setWeightLocked(id string, w weighed) {
	s.mu.shares.add(id, w.bytes-s.mu.weights[id].bytes)
	if w.bytes == 0 {
		delete(s.mu.weights, id)
		return
	}
	s.mu.weights[id] = w
}

// consumerConfig is what a group of the next-generation protocol goes by.
func (s *Shard) consumerConfig(view *projections.Cluster, group string) consumer.Config {
	c := s.opt.Config(view, group)
	cfg := c.Consumer
	cfg.Memory, cfg.ClassicMaxSize = &s.memory, c.Classic.MaxSize
	return cfg
}

func (s *Shard) armed(k timerKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.timers.Has(k)
}
