package groups

import (
	"maps"
	"slices"

	"kaas.dev/kaas/projections"
)

// Restoring says what of an earlier view is restored.
type Restoring struct {
	// Pick limits it to the offsets of some groups and topics; nil is all.
	Pick func(group string, topic projections.TopicID) bool
	// Lives reports whether a topic lives: offsets of one that does not are left out.
	Lives func(projections.TopicID) bool
	// Prune takes away what is picked and was not there then: groups, and offsets.
	Prune bool
	Time  int64 // of the restoring, ms since 1970
}

// GroupRestored is what becomes of one group.
type GroupRestored struct {
	Group   string
	Changes []OffsetRestored
	LeftOut map[projections.TopicID]int // offsets of topics that are gone
	Since   int                         // offsets that were not there then, and stay
	Members int                         // who has to join anew
	Staged  int                         // offsets staged by open transactions that are overruled
}

// OffsetRestored is a committed offset then and now; -1 is none.
type OffsetRestored struct {
	Topic     projections.TopicID
	Partition int32
	Now, Then int64
}

// Restore is the shard now with the committed offsets that it had then, and what it makes
// of each group that it touches or leaves something out of.
//
// A group whose offsets change is left without members, in a generation or epoch above
// both: they learn that they are not known at their next heartbeat, join anew, and go on
// from what was restored. Were they to stay, they would go on from where they are, and
// commit over it. Other groups keep their members.
//
// A restored offset counts as committed at the time of the restoring, for the retention and
// against what an open transaction has staged before. What is staged now stays staged, for
// its end will come; what was staged then does not come back, for its end is over.
//
// To restore the same over the result changes nothing.
func Restore(then, now *Shard, o Restoring) (*Shard, []GroupRestored) {
	if o.Pick == nil {
		o.Pick = func(string, projections.TopicID) bool { return true }
	}
	var ids []string
	for _, s := range []*Shard{then, now} {
		for g := range s.Groups() {
			ids = append(ids, g.ID)
		}
	}
	slices.Sort(ids)
	d := newDraft(now)
	var out []GroupRestored
	for _, id := range slices.Compact(ids) {
		if r := d.restoreGroup(id, then.Group(id), o); len(r.Changes)+len(r.LeftOut) > 0 {
			out = append(out, r)
		}
	}
	return d.view(), out
}

func (d *draft) restoreGroup(id string, then *Group, o Restoring) GroupRestored {
	r := GroupRestored{Group: id}
	if then == nil {
		then = &Group{ID: id}
	}
	g := d.edit(id)
	r.bring(g, then, o)
	r.prune(g, then, o)
	if len(r.Changes) > 0 {
		r.Members = g.disband(then, o.Time)
		if then.void() && len(g.Offsets)+len(g.Pending) == 0 {
			g.clear() // it was made since, and is pruned
		}
	}
	g.settle()
	return r
}

// bring brings back the offsets of then that are others now.
func (r *GroupRestored) bring(g *edit, then *Group, o Restoring) {
	for _, topic := range sortedTopics(then.Offsets) {
		if !o.Pick(g.ID, topic) {
			continue
		}
		was := then.Offsets[topic]
		if !o.Lives(topic) {
			if r.LeftOut == nil {
				r.LeftOut = map[projections.TopicID]int{}
			}
			r.LeftOut[topic] = len(was)
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(was)) {
			old, now := was[p], int64(-1)
			if cur, ok := g.At(topic, p); ok {
				if cur.Offset == old.Offset && cur.LeaderEpoch == old.LeaderEpoch && cur.Metadata == old.Metadata {
					continue
				}
				now = cur.Offset
			}
			r.Changes = append(r.Changes, OffsetRestored{topic, p, now, old.Offset})
			old.Committed = o.Time
			if old.Expires >= 0 && old.Expires <= o.Time {
				old.Expires = -1
			}
			if g.Unstable(topic, p) {
				r.Staged++
			}
			g.topic(topic, len(was))[p] = old
			g.overrule(topic, p, old)
		}
	}
}

// prune takes away what was not there then, or counts it.
func (r *GroupRestored) prune(g *edit, then *Group, o Restoring) {
	for _, topic := range sortedTopics(g.Offsets) {
		if !o.Pick(g.ID, topic) {
			continue
		}
		for _, p := range slices.Sorted(maps.Keys(g.Offsets[topic])) {
			if _, was := then.At(topic, p); was {
				continue
			}
			if !o.Prune {
				r.Since++
				continue
			}
			r.Changes = append(r.Changes, OffsetRestored{topic, p, g.Offsets[topic][p].Offset, -1})
			g.dropOffset(topic, p)
		}
	}
}

// disband takes the members out and returns how many there were.
func (g *edit) disband(then *Group, at int64) (members int) {
	classic, consumer := g.Classic, g.Consumer
	if classic == nil && consumer == nil {
		classic, consumer = then.Classic, then.Consumer // the group was deleted since, perhaps
	} else if consumer != nil {
		members = len(consumer.Members)
	} else {
		members = len(classic.Members)
	}
	epoch := max(generation(g.Group), generation(then)) + 1
	switch {
	case consumer != nil:
		g.Consumer = &Consumer{Epoch: epoch, TargetEpoch: epoch, Members: map[string]*ConsumerMember{}, Target: Targets{}}
		g.own.consumer, g.Classic = true, nil
	case classic != nil:
		g.Classic = &Classic{ProtocolType: classic.ProtocolType, Generation: epoch}
	}
	g.EmptySince = 0
	g.empty(at)
	return members
}

// generation is the group's under its protocol.
func generation(g *Group) int32 {
	switch {
	case g.Consumer != nil:
		return g.Consumer.Epoch
	case g.Classic != nil:
		return g.Classic.Generation
	}
	return 0
}

func sortedTopics(o Offsets) []projections.TopicID {
	return slices.SortedFunc(maps.Keys(o), compareIDs)
}
