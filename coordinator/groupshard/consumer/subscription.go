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
	return !slices.Equal(a.Topics, b.Topics) || patternOf(a) != patternOf(b) || a.Principal != b.Principal
}

// describer is who stands for a member where topics match its pattern; nil is one who may
// describe all. A member is everybody until it is known who it is: with its next heartbeat.
func (c *Config) describer(m *groups.ConsumerMember) Describer {
	if c.Describer == nil || m.Principal == "" {
		return nil
	}
	return c.Describer(m)
}

// subscribed returns the living topics that a member subscribes to, by name.
func subscribed(t Topics, cfg *Config, m *groups.ConsumerMember) []*projections.Topic {
	return subscribedBy(t, cfg, m, cfg.describer(m))
}

func subscribedBy(t Topics, cfg *Config, m *groups.ConsumerMember, who Describer) []*projections.Topic {
	var out []*projections.Topic
	for _, name := range m.Topics {
		if topic := t.Topic(name); topic != nil {
			out = append(out, topic)
		}
	}
	if patternOf(m) == "" {
		return out
	}
	matched, ok := cfg.matching(t, patternOf(m), who)
	if !ok {
		*cfg.Unmatched = true
	}
	if len(out) == 0 {
		return matched
	}
	out = append(out, matched...)
	slices.SortFunc(out, func(a, b *projections.Topic) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(out)
}

// subscriptions yields each member's living topics. Members that subscribe to the same
// often stand together, and get the same list.
func subscriptions(t Topics, cfg *Config, members iter.Seq[*groups.ConsumerMember]) iter.Seq2[*groups.ConsumerMember, []*projections.Topic] {
	return func(yield func(*groups.ConsumerMember, []*projections.Topic) bool) {
		var last *groups.ConsumerMember
		var topics []*projections.Topic
		var lastWho Describer
		for m := range members {
			who := cfg.describer(m)
			if last == nil || resubscribed(last, m) || who != lastWho {
				last, lastWho, topics = m, who, subscribedBy(t, cfg, m, who)
			}
			if !yield(m, topics) {
				return
			}
		}
	}
}

// hashTopics is one number for the topics that some members subscribe to: another as soon
// as one is made, made again, deleted, or given partitions, or as somebody who subscribes by
// pattern may describe others.
func hashTopics(t Topics, cfg *Config, members iter.Seq[*groups.ConsumerMember]) uint64 {
	var all uint64
	var last []*projections.Topic
	seen := map[*projections.Topic]bool{}
	for m, topics := range subscriptions(t, cfg, members) {
		if m.Principal != "" && cfg.Describer != nil {
			all += hashSeen(m, topics)
		}
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

// hashSeen is one number for what a member sees that others may not. It is the same for a
// static member that comes back.
func hashSeen(m *groups.ConsumerMember, topics []*projections.Topic) uint64 {
	h := fnv.New64a()
	h.Write([]byte(m.Principal + "\x00" + patternOf(m)))
	for _, t := range topics {
		h.Write(t.ID[:])
	}
	return h.Sum64()
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
