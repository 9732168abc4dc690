package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
)

// groupAsk is a request about the group g, and its answer's code for it.
type groupAsk struct {
	req  kmsg.Request
	code func(kmsg.Response) int16
}

// groupAsks are requests of each kind, in one of their versions.
func groupAsks(topic [16]byte) map[kmsg.Key]func(version int16) groupAsk {
	return map[kmsg.Key]func(int16) groupAsk{
		kmsg.JoinGroup: func(v int16) groupAsk {
			return groupAsk{&kmsg.JoinGroupRequest{Version: v, Group: "g"}, func(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode }}
		},
		kmsg.SyncGroup: func(v int16) groupAsk {
			p := "p"
			return groupAsk{&kmsg.SyncGroupRequest{Version: v, Group: "g", ProtocolType: &p, Protocol: &p}, func(r kmsg.Response) int16 { return r.(*kmsg.SyncGroupResponse).ErrorCode }}
		},
		kmsg.Heartbeat: func(v int16) groupAsk {
			return groupAsk{&kmsg.HeartbeatRequest{Version: v, Group: "g"}, func(r kmsg.Response) int16 { return r.(*kmsg.HeartbeatResponse).ErrorCode }}
		},
		kmsg.LeaveGroup: func(v int16) groupAsk {
			return groupAsk{&kmsg.LeaveGroupRequest{Version: v, Group: "g"}, func(r kmsg.Response) int16 { return r.(*kmsg.LeaveGroupResponse).ErrorCode }}
		},
		kmsg.OffsetCommit: func(v int16) groupAsk { return commitAsk(v, topic) },
		kmsg.OffsetFetch:  fetchAsk,
		kmsg.DescribeGroups: func(v int16) groupAsk {
			return groupAsk{&kmsg.DescribeGroupsRequest{Version: v, Groups: []string{"g"}}, func(r kmsg.Response) int16 { return r.(*kmsg.DescribeGroupsResponse).Groups[0].ErrorCode }}
		},
		kmsg.DeleteGroups: func(v int16) groupAsk {
			return groupAsk{&kmsg.DeleteGroupsRequest{Version: v, Groups: []string{"g"}}, func(r kmsg.Response) int16 { return r.(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode }}
		},
		kmsg.OffsetDelete: func(v int16) groupAsk {
			topics := []kmsg.OffsetDeleteRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
			return groupAsk{&kmsg.OffsetDeleteRequest{Version: v, Group: "g", Topics: topics}, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetDeleteResponse).ErrorCode }}
		},
		kmsg.ConsumerGroupHeartbeat: func(v int16) groupAsk {
			return groupAsk{&kmsg.ConsumerGroupHeartbeatRequest{Version: v, Group: "g"}, func(r kmsg.Response) int16 { return r.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode }}
		},
		kmsg.ConsumerGroupDescribe: func(v int16) groupAsk {
			return groupAsk{&kmsg.ConsumerGroupDescribeRequest{Version: v, Groups: []string{"g"}}, func(r kmsg.Response) int16 {
				return r.(*kmsg.ConsumerGroupDescribeResponse).Groups[0].ErrorCode
			}}
		},
	}
}

func commitAsk(v int16, topic [16]byte) groupAsk {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = v, "g"
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = "t", topic, []kmsg.OffsetCommitRequestTopicPartition{kmsg.NewOffsetCommitRequestTopicPartition()}
	req.Topics = append(req.Topics, t)
	return groupAsk{req, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode }}
}

func fetchAsk(v int16) groupAsk {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = v, "g"
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	req.Groups = append(req.Groups, g)
	return groupAsk{req, func(r kmsg.Response) int16 {
		switch resp := r.(*kmsg.OffsetFetchResponse); {
		case v < 2:
			return resp.Topics[0].Partitions[0].ErrorCode
		case v < 8:
			return resp.ErrorCode
		default:
			return resp.Groups[0].ErrorCode
		}
	}}
}

// What keeps a group from being coordinated here is told in every request and version so
// that its client goes on: it waits, or looks for the coordinator again (G-02, G-09).
func TestGroupsElsewhere(t *testing.T) {
	var refuse error
	c, _, id := dialFake(t, &fakeShard{}, &refuse)
	asks := groupAsks(id)
	loading := map[kmsg.Key]int16{kmsg.Heartbeat: 0, kmsg.SyncGroup: 27}
	for key, ask := range asks {
		for v := max(apiFor(int16(key)).min, apiFor(int16(key)).works); v <= apiFor(int16(key)).max; v++ {
			load, ok := loading[key]
			if !ok {
				load = 14
			}
			late := int16(15)
			if key == kmsg.OffsetFetch {
				late = 16
			}
			for _, tc := range []struct {
				err  error
				want int16
			}{
				{fmt.Errorf("opening: %w", kerr.CoordinatorLoadInProgress), load},
				{kerr.NotCoordinator, 16},
				{kerr.CoordinatorNotAvailable, 15},
				{fmt.Errorf("%w: nobody", kerr.NotLeaderForPartition), 16},
				{substrate.ErrFenced, 16},
				{errors.New("the disk is gone"), 16},
				{context.DeadlineExceeded, late},
			} {
				refuse = tc.err
				a := ask(v)
				if got := a.code(c.ask(a.req)); got != tc.want {
					t.Errorf("%s v%d, %v: error %d, want %d", kmsg.NameForKey(int16(key)), v, tc.err, got, tc.want)
				}
			}
		}
	}
	if len(asks) != 11 {
		t.Errorf("%d kinds of requests are tried", len(asks))
	}
}

// A group without a name is none, but for offsets, as ever.
func TestGroupWithoutName(t *testing.T) {
	f := &fakeShard{}
	c, _, id := dialFake(t, f, nil)
	unnamed := map[kmsg.Key]int16{kmsg.JoinGroup: 24, kmsg.SyncGroup: 24, kmsg.Heartbeat: 24, kmsg.LeaveGroup: 24, kmsg.OffsetDelete: 24,
		kmsg.ConsumerGroupDescribe: 24, kmsg.ConsumerGroupHeartbeat: 42, kmsg.OffsetCommit: 0, kmsg.OffsetFetch: 0, kmsg.DeleteGroups: 0, kmsg.DescribeGroups: 69}
	for key, ask := range groupAsks(id) {
		a := ask(apiFor(int16(key)).max)
		clearGroup(a.req)
		if got := a.code(c.ask(a.req)); got != unnamed[key] {
			t.Errorf("%s: error %d, want %d", kmsg.NameForKey(int16(key)), got, unnamed[key])
		}
	}
}

func clearGroup(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.JoinGroupRequest:
		r.Group = ""
	case *kmsg.SyncGroupRequest:
		r.Group = ""
	case *kmsg.HeartbeatRequest:
		r.Group = ""
	case *kmsg.LeaveGroupRequest:
		r.Group = ""
	case *kmsg.OffsetDeleteRequest:
		r.Group = ""
	case *kmsg.OffsetCommitRequest:
		r.Group = ""
	case *kmsg.OffsetFetchRequest:
		r.Groups[0].Group = ""
	case *kmsg.ConsumerGroupHeartbeatRequest:
		r.Group = ""
	case *kmsg.ConsumerGroupDescribeRequest:
		r.Groups = []string{""}
	case *kmsg.DescribeGroupsRequest:
		r.Groups = []string{""}
	case *kmsg.DeleteGroupsRequest:
		r.Groups = []string{""}
	}
}

// What is longer than an old version of an answer can hold would make answers to everybody
// unreadable, ListGroups before version 3 among them.
func TestGroupNamesFitEveryVersion(t *testing.T) {
	c := dial(t, startNode(t, t.TempDir()).Addr())
	id := c.create("t", 1)
	c.awaitGroup("g")
	long := strings.Repeat("g", math.MaxInt16+1)
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group = 9, long
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", TopicID: id, Partitions: []kmsg.OffsetCommitRequestTopicPartition{kmsg.NewOffsetCommitRequestTopicPartition()}}}
	if code := c.ask(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 24 {
		t.Errorf("commit: error %d", code)
	}
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = 1, long, "m", 10_000
	beat.SubscribedTopicNames, beat.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if code := c.ask(beat).(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode; code != 24 {
		t.Errorf("heartbeat: error %d", code)
	}
	for _, change := range []func(*kmsg.JoinGroupRequest){
		func(r *kmsg.JoinGroupRequest) { r.Group = long },
		func(r *kmsg.JoinGroupRequest) { r.ProtocolType = long },
		func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = long },
		func(r *kmsg.JoinGroupRequest) { r.InstanceID = &long },
	} {
		inst := "i"
		r := joinReq("g", "", &inst)
		r.Version = 9
		change(r)
		if code := c.ask(r).(*kmsg.JoinGroupResponse).ErrorCode; code != 24 && code != 42 {
			t.Errorf("join: error %d", code)
		}
	}
	for v := int16(0); v <= 5; v++ {
		if got := c.ask(&kmsg.ListGroupsRequest{Version: v}).(*kmsg.ListGroupsResponse); got.ErrorCode != 0 || len(got.Groups) != 0 {
			t.Errorf("ListGroups version %d: %d groups, error %d", v, len(got.Groups), got.ErrorCode)
		}
	}
}
