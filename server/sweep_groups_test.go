package server

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillGroups fills the requests of consumer groups; nil if it does not know them. Nobody
// joins: who has no member ID yet is given one, and others are unknown.
func (s *sweepTopics) fillGroups(req kmsg.Request) func(kmsg.Response) error {
	is := func(got int16, want *kerr.Error) error {
		if got != want.Code {
			return fmt.Errorf("error %d, want %v", got, want)
		}
		return nil
	}
	all := func(n int, code func(int) int16, want int16) error {
		for i := range n {
			if got := code(i); got != want {
				return fmt.Errorf("the %dth has error %d, want %d", i, got, want)
			}
		}
		if n == 0 {
			return fmt.Errorf("an empty answer")
		}
		return nil
	}
	switch r := req.(type) {
	case *kmsg.OffsetCommitRequest:
		r.Group, r.Generation, r.RetentionTimeMillis = "sweep", -1, -1
		for i, name := range s.names {
			rt := kmsg.NewOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = name, s.ids[i]
			for p := range int32(3) {
				rp := kmsg.NewOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset = p, int64(p)+5
				rt.Partitions = append(rt.Partitions, rp)
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			ts := resp.(*kmsg.OffsetCommitResponse).Topics
			return all(len(ts)*3, func(i int) int16 { return ts[i/3].Partitions[i%3].ErrorCode }, 0)
		}
	case *kmsg.OffsetFetchRequest:
		r.Group = "sweep"
		for _, name := range s.names {
			r.Topics = append(r.Topics, kmsg.OffsetFetchRequestTopic{Topic: name, Partitions: []int32{0, 1, 2}})
		}
		for _, group := range []string{"sweep", "sweep-none"} {
			rg := kmsg.NewOffsetFetchRequestGroup()
			rg.Group, rg.MemberEpoch = group, -1
			for i, name := range s.names {
				rt := kmsg.NewOffsetFetchRequestGroupTopic()
				rt.Topic, rt.TopicID, rt.Partitions = name, s.ids[i], []int32{0, 1, 2}
				rg.Topics = append(rg.Topics, rt)
			}
			r.Groups = append(r.Groups, rg)
		}
		return func(resp kmsg.Response) error {
			f := resp.(*kmsg.OffsetFetchResponse)
			if r.Version < 8 {
				for _, rt := range f.Topics {
					for _, p := range rt.Partitions {
						if p.ErrorCode != 0 || p.Offset != int64(p.Partition)+5 {
							return fmt.Errorf("%+v", p)
						}
					}
				}
				return all(len(f.Topics), func(int) int16 { return f.ErrorCode }, 0)
			}
			for i, g := range f.Groups {
				for _, rt := range g.Topics {
					for _, p := range rt.Partitions {
						if want := []int64{int64(p.Partition) + 5, -1}[i]; p.ErrorCode != 0 || p.Offset != want {
							return fmt.Errorf("%s: %+v", g.Group, p)
						}
					}
				}
			}
			return all(len(f.Groups), func(i int) int16 { return f.Groups[i].ErrorCode }, 0)
		}
	case *kmsg.JoinGroupRequest:
		r.Group, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis, r.ProtocolType = "sweep", 10_000, 10_000, "consumer"
		for _, p := range []string{"range", "roundrobin"} {
			r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: p, Metadata: []byte{0, 0}})
		}
		want := kerr.MemberIDRequired
		if r.Version < 4 { // and would wait as a member
			r.MemberID, want = "nobody", kerr.UnknownMemberID
		}
		return func(resp kmsg.Response) error { return is(resp.(*kmsg.JoinGroupResponse).ErrorCode, want) }
	case *kmsg.HeartbeatRequest:
		r.Group, r.MemberID = "sweep", "nobody"
		return func(resp kmsg.Response) error {
			return is(resp.(*kmsg.HeartbeatResponse).ErrorCode, kerr.UnknownMemberID)
		}
	case *kmsg.SyncGroupRequest:
		protocol, typ := "range", "consumer"
		r.Group, r.MemberID, r.Protocol, r.ProtocolType = "sweep", "nobody", &protocol, &typ
		for _, m := range []string{"nobody", "noone"} {
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte{0}})
		}
		return func(resp kmsg.Response) error {
			return is(resp.(*kmsg.SyncGroupResponse).ErrorCode, kerr.UnknownMemberID)
		}
	case *kmsg.LeaveGroupRequest:
		r.Group, r.MemberID = "sweep", "nobody"
		for _, m := range []string{"nobody", "noone"} {
			rm := kmsg.NewLeaveGroupRequestMember()
			rm.MemberID = m
			r.Members = append(r.Members, rm)
		}
		return func(resp kmsg.Response) error {
			l := resp.(*kmsg.LeaveGroupResponse)
			if r.Version < 3 {
				return is(l.ErrorCode, kerr.UnknownMemberID)
			}
			return all(len(l.Members), func(i int) int16 { return l.Members[i].ErrorCode }, kerr.UnknownMemberID.Code)
		}
	case *kmsg.DescribeGroupsRequest:
		r.Groups = []string{"sweep", "sweep-none"}
		return func(resp kmsg.Response) error {
			gs := resp.(*kmsg.DescribeGroupsResponse).Groups
			if len(gs) != 2 || gs[0].State != "Empty" || gs[1].State != "Dead" {
				return fmt.Errorf("%+v", gs)
			}
			return nil
		}
	case *kmsg.ListGroupsRequest:
		r.StatesFilter, r.TypesFilter = []string{"Empty", "Stable"}, []string{"classic", "consumer"}
		return func(resp kmsg.Response) error {
			l := resp.(*kmsg.ListGroupsResponse)
			return all(len(l.Groups), func(int) int16 { return l.ErrorCode }, 0)
		}
	case *kmsg.DeleteGroupsRequest:
		r.Groups = []string{"sweep-none", "sweep-neither"}
		return func(resp kmsg.Response) error {
			gs := resp.(*kmsg.DeleteGroupsResponse).Groups
			return all(len(gs), func(i int) int16 { return gs[i].ErrorCode }, kerr.GroupIDNotFound.Code)
		}
	case *kmsg.OffsetDeleteRequest:
		r.Group = "sweep"
		for range 2 {
			rt := kmsg.NewOffsetDeleteRequestTopic()
			rt.Topic = s.names[0]
			for p := range int32(3) {
				rt.Partitions = append(rt.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
			}
			r.Topics = append(r.Topics, rt)
		}
		return func(resp kmsg.Response) error {
			d := resp.(*kmsg.OffsetDeleteResponse)
			return all(len(d.Topics), func(int) int16 { return d.ErrorCode }, 0)
		}
	case *kmsg.ConsumerGroupHeartbeatRequest:
		r.Group, r.MemberID, r.MemberEpoch, r.SubscribedTopicNames = "sweep-next", "nobody", 3, s.names
		return func(resp kmsg.Response) error {
			return is(resp.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode, kerr.GroupIDNotFound)
		}
	case *kmsg.ConsumerGroupDescribeRequest:
		r.Groups = []string{"sweep-none", "sweep-neither"}
		return func(resp kmsg.Response) error {
			gs := resp.(*kmsg.ConsumerGroupDescribeResponse).Groups
			return all(len(gs), func(i int) int16 { return gs[i].ErrorCode }, kerr.GroupIDNotFound.Code)
		}
	}
	return nil
}
