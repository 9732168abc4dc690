package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var consumerScripts = []script{
	{"consumer groups", consumerScript},
	{"consumer groups, wrong", consumerWrongScript},
	{"consumer groups and classic ones", bothScript},
}

func pulse(version int16, group, member string, epoch int32, edit func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	return request(version, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Group, r.MemberID, r.MemberEpoch = group, member, epoch
		if edit != nil {
			edit(r)
		}
	})
}

// subscribing is a first heartbeat of a member.
func subscribing(topics ...string) func(*kmsg.ConsumerGroupHeartbeatRequest) {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.RebalanceTimeoutMillis, r.SubscribedTopicNames, r.Topics = 5000, topics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
}

func consumerScript(s *side) {
	id := s.create("consumed", 4)
	for _, v := range s.served(kmsg.ConsumerGroupHeartbeat.Int16()) {
		group := fmt.Sprint("consumer-", v)
		member := func(n int) string {
			if v == 0 {
				return ""
			}
			return fmt.Sprintf("%s%d-%d", ownMember, v, n)
		}
		described := func(label string) {
			each(s, label, func(r *kmsg.ConsumerGroupDescribeRequest) {
				r.Groups, r.IncludeAuthorizedOperations = []string{group}, true
			})
			each(s, label, func(r *kmsg.DescribeGroupsRequest) { r.Groups = []string{group} })
		}
		beat := func(label, member string, epoch int32, edit func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
			return s.ask(label, pulse(v, group, member, epoch, edit)).(*kmsg.ConsumerGroupHeartbeatResponse)
		}
		name := func(r *kmsg.ConsumerGroupHeartbeatResponse, n int) string {
			if r.MemberID != nil {
				return *r.MemberID
			}
			return member(n)
		}
		// assigned waits until a member has been told its part, and answers with it.
		a := beat("join", member(1), 0, subscribing("consumed"))
		one := name(a, 1)
		a = s.owned(v, group, one, a.MemberEpoch, id, 0, 1, 2, 3)
		// A change of the subscription, so that there is an epoch before the present one.
		a.MemberEpoch = beat("subscribe to more", one, a.MemberEpoch, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicNames = []string{"consumed", "none-such"}
		}).MemberEpoch
		a = s.owned(v, group, one, a.MemberEpoch, id, 0, 1, 2, 3)
		beat("heartbeat", one, a.MemberEpoch, nil)
		described("one")
		beat("all of it again", one, a.MemberEpoch, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			subscribing("consumed")(r)
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: id, Partitions: []int32{0, 1, 2, 3}}}
		})
		beat("an old epoch", one, a.MemberEpoch-1, nil)
		beat("an epoch to come", one, a.MemberEpoch+5, nil)
		beat("an unknown member", ownMember+"x", 3, nil)
		for _, cv := range s.served(kmsg.OffsetCommit.Int16()) {
			for _, e := range epochs(a.MemberEpoch) {
				r := commit(cv, group, one, e.epoch, "consumed", 0, 5)
				r.Version, r.Topics[0].TopicID = cv, id
				s.ask("commit, epoch "+e.label, r)
			}
			r := commit(cv, group, "", -1, "consumed", 1, 5)
			r.Version, r.Topics[0].TopicID = cv, id
			s.ask("commit of nobody", r)
		}
		for _, fv := range s.served(kmsg.OffsetFetch.Int16()) {
			for _, e := range epochs(a.MemberEpoch) {
				r := fetchOffsets(fv, group, true, kmsg.OffsetFetchRequestGroupTopic{Topic: "consumed", TopicID: id, Partitions: []int32{0, 1, 2}})
				r.Groups[0].MemberID, r.Groups[0].MemberEpoch = &one, e.epoch
				s.ask("offsets, epoch "+e.label, r)
			}
		}
		each(s, "offsets deleted while it is subscribed", func(r *kmsg.OffsetDeleteRequest) {
			r.Group = group
			r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "consumed", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		})
		each(s, "deleted with members", func(r *kmsg.DeleteGroupsRequest) { r.Groups = []string{group} })
		b := beat("a second", member(2), 0, subscribing("consumed"))
		two := name(b, 2)
		s.until("the first is to give up", func() bool {
			r, ok := s.quiet(pulse(v, group, one, a.MemberEpoch, nil)).(*kmsg.ConsumerGroupHeartbeatResponse)
			return ok && r.Assignment != nil && len(r.Assignment.Topics) > 0 && len(r.Assignment.Topics[0].Partitions) == 2
		})
		described("two, before the first gives up")
		a = s.owned(v, group, one, a.MemberEpoch, id, 0, 1)
		b = s.owned(v, group, two, b.MemberEpoch, id, 2, 3)
		described("two")
		beat("other topics", two, b.MemberEpoch, subscribing("consumed", "no-such"))
		beat("another assignor", two, -1, func(r *kmsg.ConsumerGroupHeartbeatRequest) {})
		described("one has left")
		beat("leave again", two, -1, nil)
		beat("leave as a static one", one, -2, nil)
		beat("leave", one, -1, nil)
		described("empty")
		each(s, "offsets deleted", func(r *kmsg.OffsetDeleteRequest) {
			r.Group = group
			r.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "consumed", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		})
		from(s, 5, "empty consumer groups", func(r *kmsg.ListGroupsRequest) {
			r.TypesFilter, r.StatesFilter = []string{"consumer"}, []string{"Empty"}
		})
		static := func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			subscribing("consumed")(r)
			r.InstanceID = ptr("instance")
		}
		instance := func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = ptr("instance") }
		c := beat("a static member", member(3), 0, static)
		three := name(c, 3)
		beat("the instance again", member(4), 0, static)
		beat("the static one leaves for a while", three, -2, instance)
		described("static and away")
		d := beat("and is back", member(5), 0, static)
		beat("the old one", three, c.MemberEpoch, instance)
		beat("the static one leaves", name(d, 5), -1, instance)
		each(s, "deleted", func(r *kmsg.DeleteGroupsRequest) {
			if r.Version == 0 {
				r.Groups = []string{group}
			} else {
				r.Groups = []string{"no-such"}
			}
		})
	}
}

// owned has a member tell that it has what it is told to have until that is these partitions.
func (s *side) owned(version int16, group, member string, epoch int32, topic [16]byte, partitions ...int32) (last *kmsg.ConsumerGroupHeartbeatResponse) {
	last = &kmsg.ConsumerGroupHeartbeatResponse{MemberEpoch: epoch}
	have := kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: topic}
	s.until("what a member is to have", func() bool {
		r, ok := s.quiet(pulse(version, group, member, last.MemberEpoch, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.RebalanceTimeoutMillis = 5000
			r.SubscribedTopicNames = []string{"consumed"}
			r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			if len(have.Partitions) > 0 {
				r.Topics = append(r.Topics, have)
			}
		})).(*kmsg.ConsumerGroupHeartbeatResponse)
		if !ok || r.ErrorCode != 0 {
			return false
		}
		last.MemberEpoch = r.MemberEpoch
		if r.Assignment == nil || len(r.Assignment.Topics) == 0 {
			return false
		}
		same := fmt.Sprint(r.Assignment.Topics[0].Partitions) == fmt.Sprint(have.Partitions)
		have.Partitions = r.Assignment.Topics[0].Partitions
		return same && len(have.Partitions) == len(partitions)
	})
	return last
}

// epochs are member epochs that a request may come with.
func epochs(now int32) []struct {
	label string
	epoch int32
} {
	return []struct {
		label string
		epoch int32
	}{{"of now", now}, {"before", now - 1}, {"to come", now + 5}, {"of nobody", -1}}
}

func consumerWrongScript(s *side) {
	s.create("consumed-wrong", 1)
	for _, v := range s.served(kmsg.ConsumerGroupHeartbeat.Int16()) {
		member := ""
		if v > 0 {
			member = ownMember + "wrong"
		}
		good := subscribing("consumed-wrong")
		with := func(edit func(*kmsg.ConsumerGroupHeartbeatRequest)) func(*kmsg.ConsumerGroupHeartbeatRequest) {
			return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				good(r)
				edit(r)
			}
		}
		for _, c := range []struct {
			label, group, member string
			epoch                int32
			edit                 func(*kmsg.ConsumerGroupHeartbeatRequest)
		}{
			{"no group", "", member, 0, good},
			{"a blank group", " ", member, 0, good},
			{"no member", "cw", "", 1, nil},
			{"a member at first", "cw", ownMember + "y", 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 })},
			{"no time to rebalance", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 })},
			{"no subscription", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil })},
			{"no partitions told", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil })},
			{"partitions at first", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: forged(1), Partitions: []int32{0}}}
			})},
			{"an unknown assignor", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = ptr("no-such") })},
			{"an empty assignor", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = ptr("") })},
			{"an empty instance", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = ptr("") })},
			{"an empty rack", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = ptr("") })},
			{"a bad regular expression", "cw", member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = ptr("[") })},
			{"a static one leaves without an instance", "cw", ownMember + "z", -2, nil},
			{"an epoch below all", "cw", ownMember + "z", -3, nil},
			{"an unknown group", "no-such", ownMember + "z", 3, nil},
			{"leave an unknown group", "no-such", ownMember + "z", -1, nil},
		} {
			s.ask(c.label, pulse(v, c.group, c.member, c.epoch, c.edit))
		}
		s.ask("range", pulse(v, fmt.Sprint("cw-range-", v), member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.ServerAssignor, r.RackID = ptr("range"), ptr("rack-1")
		})))
		regex := fmt.Sprint("cw-regex-", v)
		in := s.ask("a regular expression", pulse(v, regex, member, 0, with(func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			r.SubscribedTopicRegex = ptr("consumed-wr.*")
		}))).(*kmsg.ConsumerGroupHeartbeatResponse)
		if in.MemberID != nil {
			member = *in.MemberID
		}
		s.ask("its end", pulse(v, regex, member, -1, nil)) // Kafka looks for what it finds beside
	}
	for _, groups := range [][]string{{}, {""}, {"no-such"}, {"no-such", "no-such"}} {
		each(s, fmt.Sprintf("described %q", groups), func(r *kmsg.ConsumerGroupDescribeRequest) { r.Groups = groups })
	}
}

// bothScript is about groups of one protocol that are asked for in the other.
func bothScript(s *side) {
	s.create("of-both", 1)
	m := s.enter(s.dial(), 4, "both-classic", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
	top := s.common[kmsg.ConsumerGroupHeartbeat.Int16()].max
	s.ask("a consumer into a classic group", pulse(top, "both-classic", ownMember+"both", 0, subscribing("of-both")))
	s.ask("leave", leave(3, "both-classic", m.MemberID))
	s.ask("a consumer into an empty classic group", pulse(top, "both-classic", ownMember+"both", 0, subscribing("of-both")))
	s.ask("a consumer", pulse(top, "both-consumer", ownMember+"both", 0, subscribing("of-both")))
	for _, v := range s.served(kmsg.JoinGroup.Int16()) {
		s.ask("a classic member into a consumer group", join(v, "both-consumer", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }))
		s.ask("a classic member without a subscription", join(v, "both-consumer", "", nil))
	}
	each(s, "heartbeat", func(r *kmsg.HeartbeatRequest) { *r = *beat(r.Version, "both-consumer", ownMember+"both", 1) })
	each(s, "sync", func(r *kmsg.SyncGroupRequest) { *r = *resync(r.Version, "both-consumer", ownMember+"both", 1) })
	each(s, "leave", func(r *kmsg.LeaveGroupRequest) { *r = *leave(r.Version, "both-consumer", ownMember+"no") })
}
