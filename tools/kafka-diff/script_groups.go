package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var groupScripts = []script{
	{"coordinators", coordinatorsScript},
	{"offsets", offsetsScript},
	{"groups listed and deleted", groupAdminScript},
}

// commit is a request to commit one offset. From version 10 on it needs the topic's ID, too.
func commit(version int16, group, member string, generation int32, topic string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	return request(min(version, 9), func(r *kmsg.OffsetCommitRequest) {
		r.Group, r.MemberID, r.Generation = group, member, generation
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = partition, offset, ptr("said")
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	})
}

func coordinatorsScript(s *side) {
	for _, key := range []string{"a", "", "a b", strings.Repeat("x", 300)} {
		for kind := int8(-1); kind < 4; kind++ {
			each(s, fmt.Sprintf("%.20q of type %d", key, kind), func(r *kmsg.FindCoordinatorRequest) {
				r.CoordinatorType, r.CoordinatorKey, r.CoordinatorKeys = kind, key, []string{key}
			})
		}
	}
	from(s, 4, "several", func(r *kmsg.FindCoordinatorRequest) { r.CoordinatorKeys = []string{"a", "b", "a", ""} })
	from(s, 4, "none", func(r *kmsg.FindCoordinatorRequest) { r.CoordinatorKeys = []string{} })
}

func offsetsScript(s *side) {
	id := s.create("committed", 3)
	for _, v := range s.served(kmsg.OffsetCommit.Int16()) {
		one := func(label, group string, topic string, tid [16]byte, edit func(*kmsg.OffsetCommitRequest)) {
			r := commit(v, group, "", -1, topic, 0, 5)
			r.Version, r.Topics[0].TopicID = v, tid
			if edit != nil {
				edit(r)
			}
			s.ask(label, r)
		}
		of := func(r *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitRequestTopicPartition {
			return &r.Topics[0].Partitions[0]
		}
		group := fmt.Sprint("offsets-", v)
		one("first", group, "committed", id, nil)
		one("with an epoch", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { of(r).LeaderEpoch = 3 })
		one("no metadata", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { of(r).Metadata, of(r).Partition = nil, 1 })
		one("long metadata", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { of(r).Metadata = ptr(strings.Repeat("x", 5000)) })
		one("a negative offset", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { of(r).Offset = -1 })
		one("a very negative offset", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { of(r).Offset = -5 })
		one("an unknown partition", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { of(r).Partition = 9 })
		one("a negative partition", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { of(r).Partition = -1 })
		one("an unknown topic", group, "no-such", forged(1), nil)
		one("a bad name", group, "a b", forged(2), nil)
		one("no topic", group, "", [16]byte{}, nil)
		one("no group", "", "committed", id, nil)
		one("a generation without a member", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { r.Generation = 3 })
		one("a member without a generation", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { r.MemberID = ownMember + "x" })
		one("a member of an unknown group", "no-such", "committed", id, func(r *kmsg.OffsetCommitRequest) { r.MemberID, r.Generation = ownMember+"x", 1 })
		one("an instance", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { r.InstanceID = ptr("i") })
		one("no topics", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { r.Topics = nil })
		one("no partitions", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { r.Topics[0].Partitions = nil })
		one("a partition twice", group, "committed", id, func(r *kmsg.OffsetCommitRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, r.Topics[0].Partitions[0])
			r.Topics[0].Partitions[1].Offset = 6
		})
		one("right and wrong", group, "committed", id, func(r *kmsg.OffsetCommitRequest) {
			r.Topics = append(r.Topics, kmsg.OffsetCommitRequestTopic{Topic: "no-such", TopicID: forged(1), Partitions: r.Topics[0].Partitions})
		})
		one("to be kept for a while", group, "committed", id, func(r *kmsg.OffsetCommitRequest) { r.RetentionTimeMillis = 1000 })
		if v >= 10 {
			one("no topic ID", group, "committed", [16]byte{}, nil)
		}
	}
	for _, v := range s.served(kmsg.OffsetFetch.Int16()) {
		for _, group := range []string{"offsets-2", "offsets-9", "no-such", ""} {
			for _, stable := range []bool{false, true} {
				one := func(label string, topics ...kmsg.OffsetFetchRequestGroupTopic) {
					s.ask(fmt.Sprintf("%s of %q, stable %v", label, group, stable), fetchOffsets(v, group, stable, topics...))
				}
				t := func(name string, tid [16]byte, partitions ...int32) kmsg.OffsetFetchRequestGroupTopic {
					return kmsg.OffsetFetchRequestGroupTopic{Topic: name, TopicID: tid, Partitions: partitions}
				}
				one("some", t("committed", id, 0, 1, 2))
				one("unknown ones", t("committed", id, 9, -1), t("no-such", forged(1), 0), t("a b", forged(2), 0))
				one("twice", t("committed", id, 0, 0))
				one("no partitions", t("committed", id))
				one("none", []kmsg.OffsetFetchRequestGroupTopic{}...)
			}
		}
		if v >= 2 {
			s.ask("all", request(v, func(r *kmsg.OffsetFetchRequest) {
				r.Group, r.Groups = "offsets-2", []kmsg.OffsetFetchRequestGroup{newGroup("offsets-2"), newGroup("no-such")}
			}))
		}
		if v >= 8 {
			s.ask("no groups", request(v, func(r *kmsg.OffsetFetchRequest) {}))
			s.ask("a group twice", request(v, func(r *kmsg.OffsetFetchRequest) {
				r.Groups = []kmsg.OffsetFetchRequestGroup{newGroup("offsets-2"), newGroup("offsets-2")}
			}))
		}
		if v >= 9 {
			s.ask("of a member", request(v, func(r *kmsg.OffsetFetchRequest) {
				g := newGroup("offsets-2")
				g.MemberID, g.MemberEpoch = ptr(ownMember+"x"), 3
				h := newGroup("no-such")
				h.MemberID, h.MemberEpoch = ptr(ownMember+"x"), 3
				r.Groups = []kmsg.OffsetFetchRequestGroup{g, h}
			}))
		}
	}
	for _, group := range []string{"offsets-2", "no-such", ""} {
		for _, topic := range []string{"committed", "no-such", "a b"} {
			each(s, fmt.Sprintf("offsets of %q deleted from %q", group, topic), func(r *kmsg.OffsetDeleteRequest) {
				r.Group = group
				r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}, {Partition: 9}, {Partition: 0}}}}
			})
		}
		each(s, fmt.Sprintf("no offsets of %q deleted", group), func(r *kmsg.OffsetDeleteRequest) { r.Group = group })
	}
	s.ask("what is left", fetchOffsets(8, "offsets-2", false, kmsg.OffsetFetchRequestGroupTopic{Topic: "committed", Partitions: []int32{0, 1, 2}}))
	s.remove("committed")
	s.create("committed", 3)
	for _, v := range []int16{7, 9, 10} {
		s.ask("of a topic that was made again", request(v, func(r *kmsg.OffsetFetchRequest) {
			r.Group, r.Groups = "offsets-9", []kmsg.OffsetFetchRequestGroup{newGroup("offsets-9")}
		}))
	}
}

func newGroup(name string) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = name
	return g
}

func fetchOffsets(version int16, group string, stable bool, topics ...kmsg.OffsetFetchRequestGroupTopic) *kmsg.OffsetFetchRequest {
	return request(version, func(r *kmsg.OffsetFetchRequest) {
		g := newGroup(group)
		g.Topics = append([]kmsg.OffsetFetchRequestGroupTopic{}, topics...)
		r.Group, r.Topics, r.RequireStable, r.Groups = group, []kmsg.OffsetFetchRequestTopic{}, stable, []kmsg.OffsetFetchRequestGroup{g}
		for _, t := range topics {
			r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
	})
}

// groupAdminScript is about groups of the classic protocol that have come to be empty, or
// were never there.
func groupAdminScript(s *side) {
	s.create("of-admin", 1)
	s.quiet(commit(8, "admin-a", "", -1, "of-admin", 0, 5))
	m := s.enter(s.dial(), 4, "admin-b", nil)
	for _, groups := range [][]string{{"admin-a"}, {"no-such"}, {""}, {"admin-a", "admin-a", "admin-b"}, {}} {
		each(s, fmt.Sprintf("described %q", groups), func(r *kmsg.DescribeGroupsRequest) { r.Groups = groups })
		each(s, fmt.Sprintf("described %q", groups), func(r *kmsg.ConsumerGroupDescribeRequest) { r.Groups = groups })
	}
	for _, states := range [][]string{nil, {"Empty"}, {"empty"}, {"Stable", "Empty"}, {"CompletingRebalance"}, {"no such"}, {""}, {"Dead"}, {"Assigning"}} {
		from(s, 4, fmt.Sprintf("in states %q", states), func(r *kmsg.ListGroupsRequest) { r.StatesFilter = states })
	}
	for _, types := range [][]string{{"classic"}, {"Classic"}, {"consumer"}, {"share"}, {"streams"}, {"no such"}, {""}} {
		from(s, 5, fmt.Sprintf("of types %q", types), func(r *kmsg.ListGroupsRequest) { r.TypesFilter = types })
		from(s, 5, fmt.Sprintf("empty ones of types %q", types), func(r *kmsg.ListGroupsRequest) { r.TypesFilter, r.StatesFilter = types, []string{"Empty"} })
	}
	each(s, "all", func(r *kmsg.ListGroupsRequest) {})
	for _, v := range s.served(kmsg.DeleteGroups.Int16()) {
		group := fmt.Sprint("admin-gone-", v)
		s.quiet(commit(8, group, "", -1, "of-admin", 0, 5))
		for _, groups := range [][]string{{}, {"no-such"}, {""}, {"no-such", "no-such"}, {"admin-b", group}, {group}} {
			s.ask(fmt.Sprintf("deleted %q", groups), request(v, func(r *kmsg.DeleteGroupsRequest) { r.Groups = groups }))
		}
	}
	s.ask("leave", leave(3, "admin-b", m.MemberID))
}
