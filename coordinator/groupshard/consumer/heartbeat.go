package consumer

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/pattern"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// Heartbeat decides what a ConsumerGroupHeartbeat changes, and its answer. The group may
// be nil: there is none. Errors wrap a *kerr.Error.
func Heartbeat(g *groups.Group, t Topics, cfg Config, now time.Time, r HeartbeatRequest) ([]groups.Fact, HeartbeatResponse, error) {
	if err := r.validate(cfg); err != nil {
		return nil, HeartbeatResponse{}, err
	}
	if r.MemberID == "" {
		r.MemberID = r.NewID
	}
	d := newDraft(g, r.GroupID, t, cfg, now)
	if g == nil || g.Consumer == nil {
		if err := d.found(g, &r); err != nil {
			return nil, HeartbeatResponse{}, err
		}
	}
	if r.MemberEpoch < 0 {
		return d.leave(&r)
	}
	return d.beat(&r)
}

// found begins a membership, for a member that joins: an empty one, or one made of the
// classic members that there are.
func (d *draft) found(g *groups.Group, r *HeartbeatRequest) error {
	switch {
	case r.MemberEpoch != joining:
		return fmt.Errorf("group %q: %w", d.id, kerr.GroupIDNotFound)
	case g != nil && g.Classic != nil && len(g.Classic.Members) > 0:
		return d.upgrade(g.Classic)
	}
	return nil
}

// beat is the heartbeat of a member that joins or is there.
func (d *draft) beat(r *HeartbeatRequest) ([]groups.Fact, HeartbeatResponse, error) {
	before, err := d.find(r)
	if err != nil {
		return nil, HeartbeatResponse{}, err
	}
	d.member = updated(before, r)
	if err := d.checkSize(); err != nil {
		return nil, HeartbeatResponse{}, err
	}
	if patternOf(d.member) != patternOf(before) && d.cfg.Unmatched == nil { // it was looked at before others had to wait
		if err := d.cfg.check(patternOf(d.member)); err != nil {
			return nil, HeartbeatResponse{}, fmt.Errorf("pattern %q: %w: %w", patternOf(d.member), err, kerr.InvalidRegularExpression)
		}
	}
	d.advance(before, r.Owned)
	return d.facts(), d.answer(r, before), nil
}

// check judges a pattern.
func (c *Config) check(expr string) error {
	defer c.spent(time.Now())
	return pattern.Check(expr)
}

// advance takes the draft from a new state of one member, and from the topics as they are
// now, to what follows from them.
func (d *draft) advance(before *groups.ConsumerMember, owned []groups.TopicPartitions) {
	changed, newcomer := resubscribed(before, d.member), d.was.Members[d.member.ID] == nil
	if d.rehash(changed || newcomer) || changed || d.was.Epoch == 0 {
		d.raise()
	}
	if d.epoch > d.targetEpoch {
		d.retarget()
	}
	d.reconcile(owned, changed)
}

// find returns the state of the member that the request is of: a new one for a member
// that joins, or the one of the static member whose place it takes.
func (d *draft) find(r *HeartbeatRequest) (*groups.ConsumerMember, error) {
	m := d.was.Members[r.MemberID]
	if r.InstanceID != nil {
		return d.findStatic(r)
	}
	switch {
	case m != nil:
		return m, checkEpoch(m, r)
	case r.MemberEpoch != joining:
		return nil, fmt.Errorf("member %q of group %q: %w", r.MemberID, d.id, kerr.UnknownMemberID)
	}
	return d.newcomer(r.MemberID)
}

func (d *draft) newcomer(id string) (*groups.ConsumerMember, error) {
	if d.cfg.MaxSize > 0 && len(d.was.Members) >= d.cfg.MaxSize {
		return nil, fmt.Errorf("group %q has %d members, which is the most: %w", d.id, len(d.was.Members), kerr.GroupMaxSizeReached)
	}
	return &groups.ConsumerMember{ID: id}, nil
}

// findStatic is find for a member with an instance ID.
func (d *draft) findStatic(r *HeartbeatRequest) (*groups.ConsumerMember, error) {
	if r.MemberEpoch != joining {
		m, err := d.holder(r.MemberID, r.InstanceID)
		if err != nil {
			return nil, err
		}
		return m, checkEpoch(m, r)
	}
	m := d.static(*r.InstanceID)
	switch {
	case m == nil && d.was.Members[r.MemberID] != nil:
		return d.was.Members[r.MemberID], nil
	case m == nil:
		return d.newcomer(r.MemberID)
	case m.Epoch == away || m.Classic != nil:
		return d.replace(m, r.MemberID), nil
	case m.ID == r.MemberID:
		return m, nil
	}
	return nil, fmt.Errorf("instance %q of group %q is member %q, which has not left: %w", *r.InstanceID, d.id, m.ID, kerr.UnreleasedInstanceID)
}

// replace gives a static member's place, with what it is to have and has, to another ID.
func (d *draft) replace(m *groups.ConsumerMember, id string) *groups.ConsumerMember {
	n := *m
	n.ID, n.Epoch, n.PreviousEpoch = id, 0, 0
	if id != m.ID {
		d.gone = append(d.gone, m.ID)
		if a, ok := d.was.Target[m.ID]; ok {
			d.moved = groups.Targets{id: a}
		}
	}
	return &n
}

// checkEpoch fences a member that is not where the group thinks. A member may be one epoch
// behind, if the answer that told it was lost; then what it owns is part of what it has.
func checkEpoch(m *groups.ConsumerMember, r *HeartbeatRequest) error {
	switch {
	case r.MemberEpoch == joining || r.MemberEpoch == m.Epoch:
		return nil
	case r.MemberEpoch < m.Epoch && r.MemberEpoch == m.PreviousEpoch && r.Owned != nil && within(r.Owned, m.Assigned):
		return nil
	}
	return fmt.Errorf("member %q is at epoch %d, not %d: %w", m.ID, m.Epoch, r.MemberEpoch, kerr.FencedMemberEpoch)
}

// reconcile takes the draft's member a step towards its target.
func (d *draft) reconcile(owned []groups.TopicPartitions, changed bool) {
	r := reconciliation{
		member: d.member, target: d.target(d.member.ID), epoch: d.targetEpoch,
		owned: owned, resubscribed: changed, taken: d.taken,
		subscribed: sync.OnceValue(func() map[topicID]bool { return idsOf(subscribed(d.topics, &d.cfg, d.member)) }),
	}
	d.member = r.step()
}

func idsOf(topics []*projections.Topic) map[topicID]bool {
	out := make(map[topicID]bool, len(topics))
	for _, t := range topics {
		out[t.ID] = true
	}
	return out
}

// answer tells the member where it stands, and what it is to own if it may not know.
func (d *draft) answer(r *HeartbeatRequest, before *groups.ConsumerMember) HeartbeatResponse {
	m := d.member
	out := HeartbeatResponse{
		MemberID: m.ID, MemberEpoch: m.Epoch, HeartbeatInterval: d.cfg.HeartbeatInterval,
		SessionTimeout: d.cfg.SessionTimeout,
	}
	if m.State == groups.UnrevokedPartitions {
		out.RebalanceTimeout, out.RevokesAnew = m.RebalanceTimeout, !same(m.Revoking, before.Revoking)
	}
	if r.full() || r.MemberEpoch != before.Epoch || !same(m.Assigned, before.Assigned) {
		if out.Assignment = m.Assigned; out.Assignment == nil {
			out.Assignment = groups.Assignment{}
		}
	}
	if len(d.gone) > 0 {
		out.Replaced = d.gone[0]
	}
	return out
}
