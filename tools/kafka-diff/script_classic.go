package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var classicScripts = []script{
	{"classic groups", classicScript},
	{"classic groups, wrong", classicWrongScript},
	{"classic groups, static", staticScript},
}

// join is a request to join a group with one protocol.
func join(version int16, group, member string, edit func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
	return request(version, func(r *kmsg.JoinGroupRequest) {
		r.Group, r.MemberID, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = group, member, "consumer", 30_000, 5000
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 1}}, {Name: "other", Metadata: []byte{2}}}
		if edit != nil {
			edit(r)
		}
	})
}

// enter joins a group, with the ID that is given first where that is how it is done.
func (s *side) enter(c *conn, version int16, group string, edit func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupResponse {
	resp := c.ask("join", join(version, group, "", edit)).(*kmsg.JoinGroupResponse)
	if version >= 4 && resp.ErrorCode == memberIDRequired {
		return c.ask("join with the ID", join(version, group, resp.MemberID, edit)).(*kmsg.JoinGroupResponse)
	}
	return resp
}

const memberIDRequired = 79

func resync(version int16, group, member string, generation int32, assigned ...string) *kmsg.SyncGroupRequest {
	return request(version, func(r *kmsg.SyncGroupRequest) {
		r.Group, r.MemberID, r.Generation = group, member, generation
		r.ProtocolType, r.Protocol = ptr("consumer"), ptr("range")
		for _, m := range assigned {
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte("for it")})
		}
	})
}

func beat(version int16, group, member string, generation int32) *kmsg.HeartbeatRequest {
	return request(version, func(r *kmsg.HeartbeatRequest) { r.Group, r.MemberID, r.Generation = group, member, generation })
}

func leave(version int16, group string, members ...string) *kmsg.LeaveGroupRequest {
	return request(version, func(r *kmsg.LeaveGroupRequest) {
		r.Group = group
		if version < 3 {
			r.MemberID = members[0]
			return
		}
		for _, m := range members {
			r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: m})
		}
	})
}

func classicScript(s *side) {
	s.create("of-groups", 2)
	for _, v := range s.served(kmsg.JoinGroup.Int16()) {
		group := fmt.Sprint("classic-", v)
		at := func(key kmsg.Key) int16 { return max(s.common[key.Int16()].min, min(v, s.common[key.Int16()].max)) }
		one, two := s.main, s.dial()
		a := s.enter(one, v, group, nil)
		one.ask("heartbeat before sync", beat(at(kmsg.Heartbeat), group, a.MemberID, a.Generation))
		s.describeGroup("joined", group)
		one.ask("sync", resync(at(kmsg.SyncGroup), group, a.MemberID, a.Generation, a.MemberID))
		one.ask("sync again", resync(at(kmsg.SyncGroup), group, a.MemberID, a.Generation))
		one.ask("heartbeat", beat(at(kmsg.Heartbeat), group, a.MemberID, a.Generation))
		one.ask("heartbeat of another generation", beat(at(kmsg.Heartbeat), group, a.MemberID, a.Generation+1))
		one.ask("heartbeat of another member", beat(at(kmsg.Heartbeat), group, ownMember+"x", a.Generation))
		one.ask("sync of another generation", resync(at(kmsg.SyncGroup), group, a.MemberID, a.Generation+5))
		one.ask("sync of another member", resync(at(kmsg.SyncGroup), group, ownMember+"x", a.Generation))
		one.ask("commit", commit(at(kmsg.OffsetCommit), group, a.MemberID, a.Generation, "of-groups", 0, 5))
		one.ask("commit of another generation", commit(at(kmsg.OffsetCommit), group, a.MemberID, a.Generation+1, "of-groups", 0, 5))
		one.ask("commit of another member", commit(at(kmsg.OffsetCommit), group, ownMember+"x", a.Generation, "of-groups", 0, 5))
		one.ask("commit of nobody", commit(at(kmsg.OffsetCommit), group, "", -1, "of-groups", 0, 5))
		s.describeGroup("stable", group)
		s.ask("delete with members", newest(s, func(r *kmsg.DeleteGroupsRequest) { r.Groups = []string{group} }))
		// The second has the first join again.
		first := join(v, group, "", nil)
		member := ""
		if v >= 4 {
			member = two.ask("a second", first).(*kmsg.JoinGroupResponse).MemberID
		}
		two.send(join(v, group, member, nil))
		s.until("a rebalance", func() bool {
			r, ok := s.quiet(beat(3, group, a.MemberID, a.Generation)).(*kmsg.HeartbeatResponse)
			return ok && r.ErrorCode != 0
		})
		one.ask("heartbeat while it is rebalanced", beat(at(kmsg.Heartbeat), group, a.MemberID, a.Generation))
		one.ask("commit while it is rebalanced", commit(at(kmsg.OffsetCommit), group, a.MemberID, a.Generation, "of-groups", 1, 6))
		one.ask("sync while it is rebalanced", resync(at(kmsg.SyncGroup), group, a.MemberID, a.Generation))
		a = one.ask("join again", join(v, group, a.MemberID, nil)).(*kmsg.JoinGroupResponse)
		b := two.answer("the second").(*kmsg.JoinGroupResponse)
		two.send(resync(at(kmsg.SyncGroup), group, b.MemberID, b.Generation))
		one.ask("sync for both", resync(at(kmsg.SyncGroup), group, a.MemberID, a.Generation, a.MemberID, b.MemberID))
		two.answer("sync of the second")
		s.describeGroup("of two", group)
		two.ask("leave", leave(at(kmsg.LeaveGroup), group, b.MemberID))
		two.ask("leave again", leave(at(kmsg.LeaveGroup), group, b.MemberID))
		one.ask("heartbeat after one has left", beat(at(kmsg.Heartbeat), group, a.MemberID, a.Generation))
		if at(kmsg.LeaveGroup) >= 3 {
			one.ask("several leave", leave(at(kmsg.LeaveGroup), group, a.MemberID, ownMember+"x", b.MemberID))
		} else {
			one.ask("the last leaves", leave(at(kmsg.LeaveGroup), group, a.MemberID))
		}
		s.describeGroup("empty", group)
		one.ask("commit to an empty one", commit(at(kmsg.OffsetCommit), group, "", -1, "of-groups", 0, 9))
		one.ask("commit of a former member", commit(at(kmsg.OffsetCommit), group, a.MemberID, a.Generation, "of-groups", 0, 9))
	}
}

func (s *side) describeGroup(label, group string) {
	each(s, label, func(r *kmsg.DescribeGroupsRequest) { r.Groups, r.IncludeAuthorizedOperations = []string{group}, true })
}

func classicWrongScript(s *side) {
	for _, v := range s.served(kmsg.JoinGroup.Int16()) {
		for _, c := range []struct {
			label, group, member string
			edit                 func(*kmsg.JoinGroupRequest)
		}{
			{"no group", "", "", nil},
			{"an unknown member", "wrong", ownMember + "x", nil},
			{"too short a session", "wrong", "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 10 }},
			{"too long a session", "wrong", "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 2_000_000_000 }},
			{"no protocols", "wrong", "", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }},
			{"no protocol type", "wrong", "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }},
			{"an empty instance", fmt.Sprint("wrong-instance-", v), "", func(r *kmsg.JoinGroupRequest) { r.InstanceID = ptr("") }},
			{"a bad instance", fmt.Sprint("wrong-instance-too-", v), "", func(r *kmsg.JoinGroupRequest) { r.InstanceID = ptr("a b") }},
			{"an instance of an unknown member", "wrong", ownMember + "x", func(r *kmsg.JoinGroupRequest) { r.InstanceID = ptr("instance") }},
		} {
			s.ask(c.label, join(v, c.group, c.member, c.edit))
		}
		group := fmt.Sprint("wrong-", v)
		a := s.enter(s.main, v, group, nil)
		s.ask("another type", join(v, group, "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" }))
		s.ask("no protocol in common", join(v, group, "", func(r *kmsg.JoinGroupRequest) {
			r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "third", Metadata: []byte{2}}}
		}))
		for _, sv := range s.served(kmsg.SyncGroup.Int16()) {
			s.ask("sync with another type", request(sv, func(r *kmsg.SyncGroupRequest) {
				*r = *resync(sv, group, a.MemberID, a.Generation)
				r.ProtocolType = ptr("connect")
			}))
			s.ask("sync with another protocol", request(sv, func(r *kmsg.SyncGroupRequest) {
				*r = *resync(sv, group, a.MemberID, a.Generation)
				r.Protocol = ptr("connect")
			}))
			s.ask("sync of no group", resync(sv, "", "", 1))
			s.ask("sync of an unknown group", resync(sv, "no-such", ownMember+"x", 1))
		}
		s.ask("leave", leave(0, group, a.MemberID))
	}
	each(s, "heartbeat of no group", func(r *kmsg.HeartbeatRequest) { *r = *beat(r.Version, "", ownMember+"x", 1) })
	each(s, "heartbeat of an unknown group", func(r *kmsg.HeartbeatRequest) { *r = *beat(r.Version, "no-such", ownMember+"x", 1) })
	each(s, "leave no group", func(r *kmsg.LeaveGroupRequest) { *r = *leave(r.Version, "", ownMember+"x") })
	each(s, "leave an unknown group", func(r *kmsg.LeaveGroupRequest) { *r = *leave(r.Version, "no-such", ownMember+"x") })
	from(s, 3, "nobody leaves", func(r *kmsg.LeaveGroupRequest) { *r = *leave(r.Version, "no-such") })
}

func staticScript(s *side) {
	for _, v := range s.served(kmsg.JoinGroup.Int16()) {
		if v < 5 {
			continue
		}
		group := fmt.Sprint("static-", v)
		static := func(r *kmsg.JoinGroupRequest) { r.InstanceID = ptr("instance") }
		a := s.ask("join", join(v, group, "", static)).(*kmsg.JoinGroupResponse)
		withSync := func(label, member string, generation int32) {
			r := resync(min(v, 5), group, member, generation, member)
			r.InstanceID = ptr("instance")
			s.ask(label, r)
		}
		withBeat := func(label, member string, generation int32) {
			r := beat(4, group, member, generation)
			r.InstanceID = ptr("instance")
			s.ask(label, r)
		}
		withCommit := func(label, member string, generation int32) {
			r := commit(8, group, member, generation, "of-groups", 0, 7)
			r.InstanceID = ptr("instance")
			s.ask(label, r)
		}
		withSync("sync", a.MemberID, a.Generation)
		withBeat("heartbeat", a.MemberID, a.Generation)
		s.ask("heartbeat without the instance", beat(4, group, a.MemberID, a.Generation))
		b := s.ask("join again", join(v, group, "", static)).(*kmsg.JoinGroupResponse)
		withBeat("heartbeat of the old", a.MemberID, a.Generation)
		withCommit("commit of the old", a.MemberID, a.Generation)
		s.ask("join of the old", join(v, group, a.MemberID, static))
		withBeat("heartbeat of the new", b.MemberID, b.Generation)
		withCommit("commit of the new", b.MemberID, b.Generation)
		s.describeGroup("static", group)
		for _, lv := range s.served(kmsg.LeaveGroup.Int16()) {
			if lv >= 3 {
				s.ask("an unknown instance leaves", request(lv, func(r *kmsg.LeaveGroupRequest) {
					r.Group, r.Members = group, []kmsg.LeaveGroupRequestMember{{InstanceID: ptr("no-such")}, {MemberID: a.MemberID, InstanceID: ptr("instance")}}
				}))
			}
		}
		s.ask("the instance leaves", request(min(v, 5), func(r *kmsg.LeaveGroupRequest) {
			r.Group, r.Members = group, []kmsg.LeaveGroupRequestMember{{InstanceID: ptr("instance")}}
		}))
		s.describeGroup("empty", group)
	}
}
