package consumer

import (
	"cmp"
	"slices"
	"strings"

	"kaas.dev/kaas/coordinator/groupshard/assignor"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// retarget makes a target for the group's epoch.
func (d *draft) retarget() {
	members := slices.SortedFunc(d.members(), byIdentity)
	d.assignor = d.chooseAssignor(members)
	targets := assignor.Named(d.assignor)(d.problem(members))
	moved := groups.Targets{}
	for i, m := range members {
		if !same(targets[i], d.was.Target[m.ID]) {
			moved[m.ID] = targets[i]
		}
	}
	d.moved, d.targetEpoch, d.retold = moved, d.epoch, true
}

// byIdentity orders static members before others, and by what they keep over a restart.
func byIdentity(a, b *groups.ConsumerMember) int {
	switch {
	case a.InstanceID != nil && b.InstanceID != nil:
		return strings.Compare(*a.InstanceID, *b.InstanceID)
	case a.InstanceID != nil:
		return -1
	case b.InstanceID != nil:
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}

// chooseAssignor returns the assignor that most members ask for, of several the one that
// comes first in the config, and that one too if nobody asks.
func (d *draft) chooseAssignor(members []*groups.ConsumerMember) string {
	votes := map[string]int{}
	for _, m := range members {
		if m.ServerAssignor != nil {
			votes[*m.ServerAssignor]++
		}
	}
	best := assignor.Uniform
	for i, name := range d.cfg.Assignors {
		if assignor.Named(name) != nil && (i == 0 || votes[name] > votes[best]) {
			best = name
		}
	}
	return best
}

// problem says what the assignor is to solve.
func (d *draft) problem(members []*groups.ConsumerMember) assignor.Problem {
	pr := assignor.Problem{Members: make([]assignor.Member, len(members))}
	lists := make([][]*projections.Topic, 0, len(members))
	index := map[*projections.Topic]int32{}
	for _, topics := range subscriptions(d.topics, &d.cfg, slices.Values(members)) {
		lists = append(lists, topics)
		for _, t := range topics {
			index[t] = 0
		}
	}
	for i, t := range byName(index) {
		index[t] = int32(i)
		pr.Topics = append(pr.Topics, assignor.Topic{ID: t.ID, Partitions: int32(len(t.Partitions))})
	}
	for i, m := range members {
		pr.Members[i] = assignor.Member{Topics: positions(lists[i], index), Current: d.target(m.ID)}
	}
	return pr
}

func byName(set map[*projections.Topic]int32) []*projections.Topic {
	out := make([]*projections.Topic, 0, len(set))
	for t := range set {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *projections.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func positions(topics []*projections.Topic, index map[*projections.Topic]int32) []int32 {
	out := make([]int32, len(topics))
	for i, t := range topics {
		out[i] = index[t]
	}
	return out
}
