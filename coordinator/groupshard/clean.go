package groupshard

import (
	"context"
	"slices"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// clean drops offsets whose time has passed, and groups that nothing is left of. Each group
// is looked at once more where the stream orders it.
func (s *Shard) clean(ctx context.Context) {
	for g := range s.w.Committed().State.Groups() {
		if len(s.outdated(g)) == 0 {
			continue
		}
		err := s.publish(ctx, "offsets expired", func(st *groups.Shard) ([]groups.Fact, error) {
			if g := st.Group(g.ID); g != nil {
				return s.outdated(g), nil
			}
			return nil, nil
		})
		if err != nil {
			s.opt.Log.Warn("expired offsets are not dropped yet", "shard", s.name, "group", g.ID, "err", err)
			return // the volume has trouble; there is another time
		}
	}
}

// outdated are the facts that drop what of a group has expired, none if nothing has.
func (s *Shard) outdated(g *groups.Group) []groups.Fact {
	state, subscribed := s.standing(g)
	keep := s.config(g.ID).Retention.Milliseconds()
	now := s.nowMs()
	expired := func(t projections.TopicID, o groups.Offset) bool {
		since := o.Committed
		switch state {
		case noMembers:
			since = max(since, g.EmptySince)
		case atRest:
			if subscribed(t) {
				return false
			}
		case moving:
			return false
		}
		if o.Expires >= 0 {
			return now >= o.Expires
		}
		return now-since >= keep
	}
	var out []groups.TopicPartitions
	left := 0
	for t, ps := range g.Offsets {
		var gone []int32
		for i, o := range ps {
			if expired(t, o) && !pending(g, t, i) {
				gone = append(gone, i)
			} else {
				left++
			}
		}
		if len(gone) > 0 {
			slices.Sort(gone)
			out = append(out, groups.TopicPartitions{Topic: t, Partitions: gone})
		}
	}
	switch {
	case left == 0 && len(g.Pending) == 0 && (state == noMembers || state == neverMembers):
		if len(out) > 0 || now-g.EmptySince >= keep {
			return []groups.Fact{&groups.GroupDeleted{Group: g.ID}}
		}
		return nil
	case len(out) == 0:
		return nil
	}
	sortTopics(out)
	return []groups.Fact{&groups.OffsetsRemoved{Group: g.ID, Topics: out}}
}

func sortTopics(ts []groups.TopicPartitions) {
	slices.SortFunc(ts, func(a, b groups.TopicPartitions) int { return slices.Compare(a.Topic[:], b.Topic[:]) })
}

// pending reports an offset that an open transaction is about to commit.
func pending(g *groups.Group, t projections.TopicID, index int32) bool {
	for _, p := range g.Pending {
		if _, ok := p.Offsets[t][index]; ok {
			return true
		}
	}
	return false
}

// standing says what counts for the age of a group's offsets.
type standing int

const (
	neverMembers standing = iota // offsets age from their commit
	noMembers                    // and from when the last member went
	atRest                       // those of topics nobody subscribes to age from their commit
	moving                       // nothing ages
)

// standing is how a group stands, and which topics its members subscribe to.
func (s *Shard) standing(g *groups.Group) (standing, func(projections.TopicID) bool) {
	view := s.opt.View()
	byName := func(f func(string) bool) func(projections.TopicID) bool {
		return func(id projections.TopicID) bool {
			t := view.TopicByID(id)
			return t != nil && f(t.Name)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.mu.live[g.ID]; l != nil && !l.g.Idle() {
		if l.g.State() != "Stable" {
			return moving, nil
		}
		if l.g.ProtocolType() != "consumer" {
			return moving, nil
		}
		topics := map[string]bool{}
		for _, t := range view.Topics() {
			topics[t.Name] = l.g.Subscribed(t.Name)
		}
		return atRest, byName(func(n string) bool { return topics[n] })
	}
	switch {
	case g.Consumer != nil && len(g.Consumer.Members) > 0:
		return moving, nil // a member's pattern may come to match any topic
	case g.Classic != nil || g.Consumer != nil:
		return noMembers, nil
	}
	return neverMembers, nil
}

// forgetTopics drops the offsets of topics that were deleted. What it does not come to is
// shown to nobody, and expires.
func (s *Shard) forgetTopics(ctx context.Context) {
	s.mu.Lock()
	gone := s.mu.gone
	s.mu.gone = nil
	s.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	for g := range s.w.Committed().State.Groups() {
		if !slices.ContainsFunc(gone, func(t projections.TopicID) bool { return len(g.Offsets[t]) > 0 }) {
			continue
		}
		err := s.publish(ctx, "offsets of deleted topics", func(st *groups.Shard) ([]groups.Fact, error) {
			if g := st.Group(g.ID); g != nil {
				return withoutTopics(g, gone), nil
			}
			return nil, nil
		})
		if err != nil {
			s.opt.Log.Warn("offsets of deleted topics are left to expire", "shard", s.name, "group", g.ID, "err", err)
			return
		}
	}
}

func withoutTopics(g *groups.Group, gone []projections.TopicID) []groups.Fact {
	var out []groups.TopicPartitions
	for _, t := range gone {
		var ps []int32
		for i := range g.Offsets[t] {
			ps = append(ps, i)
		}
		if slices.Sort(ps); len(ps) > 0 {
			out = append(out, groups.TopicPartitions{Topic: t, Partitions: ps})
		}
	}
	if len(out) == 0 {
		return nil
	}
	sortTopics(out)
	return []groups.Fact{&groups.OffsetsRemoved{Group: g.ID, Topics: out}}
}
