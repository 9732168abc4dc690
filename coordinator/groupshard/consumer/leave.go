package consumer

import (
	"time"

	"kaas.dev/kaas/projections/groups"
)

// leave is the last heartbeat of a member, or of a static one that is away for a while.
func (d *draft) leave(r *HeartbeatRequest) ([]groups.Fact, HeartbeatResponse, error) {
	m, err := d.holder(r.MemberID, r.InstanceID)
	if err != nil {
		return nil, HeartbeatResponse{}, err
	}
	out := HeartbeatResponse{MemberID: m.ID, MemberEpoch: r.MemberEpoch}
	if r.MemberEpoch == away {
		d.sendAway(m)
		out.SessionTimeout = d.cfg.SessionTimeout
	} else {
		out.Left = true
		d.remove(m.ID)
	}
	return d.facts(), out, nil
}

// sendAway notes that a static member is away. It has what it had, but for what it was to
// give up.
func (d *draft) sendAway(m *groups.ConsumerMember) {
	n := *m
	n.Epoch, n.PreviousEpoch = away, m.Epoch
	n.State, n.Revoking = groups.Stable, nil
	d.member = &n
}

// remove takes members out. The others get their partitions at their next heartbeats.
func (d *draft) remove(ids ...string) {
	d.gone = append(d.gone, ids...)
	// A classic group goes on in this epoch, so that its members' heartbeats are understood,
	// and tell them of the rebalance.
	if c, ok := d.downgrade(); ok {
		d.downgraded = &c
		return
	}
	d.rehash(true)
	d.raise()
}

// Fence removes a member whose session has ended, or that did not give up in time what it
// had to. There are no facts if it is not there.
func Fence(g *groups.Group, t Topics, cfg Config, now time.Time, member string) []groups.Fact {
	if g == nil || g.Consumer == nil || g.Consumer.Members[member] == nil {
		return nil
	}
	d := newDraft(g, g.ID, t, cfg, now)
	d.remove(member)
	return d.facts()
}
