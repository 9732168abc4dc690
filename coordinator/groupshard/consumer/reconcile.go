package consumer

import (
	"maps"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

type topicID = projections.TopicID

// reconciliation takes one member a step from what it has to what it is to have.
type reconciliation struct {
	member *groups.ConsumerMember
	target groups.Assignment
	epoch  int32 // of the target
	// owned is what the member says that it owns, nil if it does not say.
	owned []groups.TopicPartitions
	// resubscribed is set if the member's subscription has changed just now.
	resubscribed bool
	subscribed   func() map[topicID]bool // its topics that there are
	// taken returns which of some partitions other members have not given up.
	taken func(groups.Assignment) groups.Assignment
}

// step returns the member's next state: the member itself if it stays as it is.
func (r *reconciliation) step() *groups.ConsumerMember {
	m := r.member
	switch {
	case m.State == groups.Stable && m.Epoch == r.epoch:
		return r.unsubscribe()
	case m.State == groups.UnrevokedPartitions && r.keeps(m.Revoking):
		return r.unsubscribe()
	}
	return r.advance()
}

// keeps reports whether the member may still own some of a. One that does not say what it
// owns has not given up anything. One that says it without them is not asked again: if it
// never heard of them, it has nothing to give up, and so would not answer.
func (r *reconciliation) keeps(a groups.Assignment) bool {
	return len(a) > 0 && (r.owned == nil || owns(r.owned, a))
}

// unsubscribe takes from the member what it does not subscribe to any more, and leaves it
// where it is otherwise.
func (r *reconciliation) unsubscribe() *groups.ConsumerMember {
	if !r.resubscribed {
		return r.member
	}
	stay, revoke := groups.Assignment{}, maps.Clone(r.member.Revoking)
	if revoke == nil {
		revoke = groups.Assignment{}
	}
	for id, ps := range r.member.Assigned {
		if r.subscribed()[id] {
			stay[id] = ps
		} else {
			revoke[id] = either(revoke[id], ps)
		}
	}
	if len(stay) == len(r.member.Assigned) {
		return r.member
	}
	m := *r.member
	m.Assigned = stay
	if r.keeps(revoke) {
		m.State, m.Revoking = groups.UnrevokedPartitions, revoke
	}
	return &m
}

// advance takes the member as far towards the target as can be: partitions that are not
// in the target are given up first. When none is left, the member enters the target's
// epoch, and gets what nobody else has.
func (r *reconciliation) advance() *groups.ConsumerMember {
	stay, revoke, add, waits := r.compare()
	m := *r.member
	m.Assigned = stay
	if r.keeps(revoke) {
		m.State, m.Revoking = groups.UnrevokedPartitions, revoke
		return &m
	}
	for id, ps := range add {
		stay[id] = either(stay[id], ps)
	}
	m.State, m.Revoking = groups.Stable, nil
	if waits {
		m.State = groups.UnreleasedPartitions
	}
	if m.Epoch != r.epoch {
		m.PreviousEpoch, m.Epoch = m.Epoch, r.epoch
	}
	return &m
}

// compare sorts the partitions that the member has or is to have: those that stay, those
// to give up, those that it can have now. The last result is whether there are more, which
// others have.
func (r *reconciliation) compare() (stay, revoke, add groups.Assignment, waits bool) {
	stay, revoke, add = groups.Assignment{}, groups.Assignment{}, groups.Assignment{}
	for id, has := range r.member.Assigned {
		want := r.wanted(id)
		put(stay, id, both(has, want))
		put(revoke, id, without(has, want))
	}
	missing := groups.Assignment{}
	for id := range r.target {
		put(missing, id, without(r.wanted(id), r.member.Assigned[id]))
	}
	taken := r.taken(missing)
	for id, ps := range missing {
		put(add, id, without(ps, taken[id]))
	}
	return stay, revoke, add, len(taken) > 0
}

// wanted is the target of a topic that the member subscribes to.
func (r *reconciliation) wanted(id topicID) []int32 {
	if want := r.target[id]; len(want) > 0 && r.subscribed()[id] {
		return want
	}
	return nil
}
