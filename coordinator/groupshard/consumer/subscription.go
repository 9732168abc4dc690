package consumer

import (
	"cmp"
	"hash/fnv"
	"iter"
	"slices"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// normal returns names ascending, each once.
func normal(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}

// patternOf returns what a member subscribes to by pattern; none is empty.
func patternOf(m *groups.ConsumerMember) string {
	if m.Regex == nil {
		return ""
	}
	return *m.Regex
}

// resubscribed reports whether two states of a member differ in their subscriptions.
func resubscribed(a, b *groups.ConsumerMember) bool {
	return !slices.Equal(a.Topics, b.Topics) || patternOf(a) != patternOf(b)
}

// subscribed returns the living topics that a member subscribes to, by name.
func subscribed(t Topics, mem *Memory, m *groups.ConsumerMember) []*projections.Topic {
	var out []*projections.Topic
	for _, name := range m.Topics {
		if topic := t.Topic(name); topic != nil {
			out = append(out, topic)
		}
	}
	if patternOf(m) == "" {
		return out
	}
	out = append(out, mem.matching(t, patternOf(m))...)
	slices.SortFunc(out, func(a, b *projections.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(out)
}

// subscriptions yields each member's living topics. Members that subscribe to the same
// often stand together, and get the same list.
func subscriptions(t Topics, mem *Memory, members iter.Seq[*groups.ConsumerMember]) iter.Seq2[*groups.ConsumerMember, []*projections.Topic] {
	return func(yield func(*groups.ConsumerMember, []*projections.Topic) bool) {
		var last *groups.ConsumerMember
		var topics []*projections.Topic
		for m := range members {
			if last == nil || resubscribed(last, m) {
				last, topics = m, subscribed(t, mem, m)
			}
			if !yield(m, topics) {
				return
			}
		}
	}
}

// hashTopics is one number for the topics that some members subscribe to: another as soon
// as one is made, made again, deleted, or given partitions.
func hashTopics(t Topics, mem *Memory, members iter.Seq[*groups.ConsumerMember]) uint64 {
	var all uint64
	var last []*projections.Topic
	seen := map[*projections.Topic]bool{}
	for _, topics := range subscriptions(t, mem, members) {
		if len(topics) == 0 || len(last) > 0 && &topics[0] == &last[0] {
			continue
		}
		last = topics
		for _, topic := range topics {
			if !seen[topic] {
				seen[topic] = true
				all += hashTopic(topic)
			}
		}
	}
	return all
}

// hashTopic spreads every bit over all others at the end: what one topic's partitions
// change must not cancel out in the sum what another's do.
func hashTopic(t *projections.Topic) uint64 {
	h := fnv.New64a()
	h.Write(t.ID[:])
	x := h.Sum64() ^ uint64(len(t.Partitions))*0x9e3779b97f4a7c15
	for _, factor := range []uint64{0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53} {
		x = (x ^ x>>33) * factor
	}
	return x ^ x>>33
}
