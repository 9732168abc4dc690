package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// Kinds of objects in the shards' streams.
const (
	KindGroup        = "group"
	KindMember       = "member"
	KindOffset       = "offset"
	KindStagedOffset = "staged_offset"
	KindTxn          = "transactional_id"
)

func groupsParts(s *groups.Shard, _ Namer) (out []part) {
	for g := range s.Groups() {
		out = append(out, part{0, g.ID, g, g, groupObjects})
	}
	return out
}

func groupObjects(v any, n Namer) []Object {
	g := v.(*groups.Group)
	head := Object{KindGroup, g.ID, g.ID, nil}
	var members []Object
	switch {
	case g.Classic != nil:
		c := g.Classic
		head.Fields = []Field{{"protocol", "classic"}, {"protocol_type", c.ProtocolType}, {"generation", c.Generation}, {"assignor", c.Protocol},
			{"leader", c.Leader}, {"members", len(c.Members)}}
		for _, m := range c.Members {
			members = append(members, Object{KindMember, g.ID + " " + m.ID, g.ID, []Field{{"client", m.ClientID}, {"host", m.Host}}})
		}
	case g.Consumer != nil:
		c := g.Consumer
		head.Fields = []Field{{"protocol", "consumer"}, {"epoch", c.Epoch}, {"target_epoch", c.TargetEpoch}, {"assignor", c.Assignor}, {"members", len(c.Members)}}
		for _, id := range slices.Sorted(maps.Keys(c.Members)) {
			m := c.Members[id]
			members = append(members, Object{KindMember, g.ID + " " + id, g.ID, []Field{{"client", m.ClientID}, {"host", m.Host}, {"epoch", m.Epoch},
				{"state", m.State.String()}, {"has", assigned(m.Assigned, n)}, {"gives_up", assigned(m.Revoking, n)}, {"is_to_have", assigned(c.Target[id], n)}}})
		}
	default:
		head.Fields = []Field{{"protocol", "none"}}
	}
	if g.EmptySince != 0 {
		head.Fields = append(head.Fields, Field{"empty_since", millis(g.EmptySince)})
	}
	out := append([]Object{head}, members...)
	out = append(out, offsetObjects(KindOffset, g.ID, "", g.Offsets, n)...)
	for _, id := range slices.Sorted(maps.Keys(g.Pending)) {
		p := g.Pending[id]
		out = append(out, offsetObjects(KindStagedOffset, g.ID, fmt.Sprintf("producer %d epoch %d ", id, p.Epoch), p.Offsets, n)...)
	}
	return out
}

// assigned is partitions in words.
func assigned(a groups.Assignment, n Namer) string {
	var parts []string
	for _, id := range slices.SortedFunc(maps.Keys(a), compareIDs) {
		parts = append(parts, n(id)+":"+Runs(a[id]))
	}
	return strings.Join(parts, " ")
}

func offsetObjects(kind, group, of string, offsets groups.Offsets, n Namer) (out []Object) {
	for _, id := range slices.SortedFunc(maps.Keys(offsets), compareIDs) {
		t := offsets[id]
		for _, p := range slices.Sorted(maps.Keys(t)) {
			o := t[p]
			fs := []Field{{"offset", o.Offset}, {"leader_epoch", o.LeaderEpoch}, {"committed", millis(o.Committed)}}
			if o.Metadata != "" {
				fs = append(fs, Field{"metadata", o.Metadata})
			}
			if o.Expires >= 0 {
				fs = append(fs, Field{"expires", millis(o.Expires)})
			}
			out = append(out, Object{kind, fmt.Sprintf("%s %s%s/%d", group, of, n(id), p), group, fs})
		}
	}
	return out
}

func txnsParts(s *txns.Shard, _ Namer) (out []part) {
	for t := range s.Txns() {
		out = append(out, part{0, t.ID, t, t, txnObject})
	}
	return out
}

func txnObject(v any, n Namer) []Object {
	t := v.(*txns.Txn)
	fs := []Field{{"state", t.State.String()}, {"producer_id", t.ProducerID}, {"producer_epoch", t.Epoch}, {"timeout_ms", t.Timeout}}
	optional := func(ok bool, name string, v any) {
		if ok {
			fs = append(fs, Field{name, v})
		}
	}
	optional(t.LastEpoch != txns.NoEpoch, "last_producer_epoch", t.LastEpoch)
	optional(t.PrevProducerID != txns.NoProducer, "previous_producer_id", t.PrevProducerID)
	optional(t.NextProducerID != txns.NoProducer, "next_producer_id", t.NextProducerID)
	optional(t.Fencing, "fencing", true)
	optional(t.Started != txns.NotStarted, "started", millis(t.Started))
	optional(len(t.Partitions) > 0, "partitions", joined(t.Partitions, n))
	optional(len(t.Groups) > 0, "group_shards", Runs(t.Groups))
	return []Object{{KindTxn, t.ID, t.ID, append(fs, Field{"updated", millis(t.Updated)})}}
}

func joined(ps txns.Partitions, n Namer) string {
	a := groups.Assignment{}
	for _, p := range ps {
		a[p.Topic] = append(a[p.Topic], p.Index)
	}
	return assigned(a, n)
}
