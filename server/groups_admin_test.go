package server

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

func describable(id projections.TopicID) map[string]groupshard.Description {
	inst, rack, regex := "i1", "r1", "t.*"
	return map[string]groupshard.Description{
		"c": {State: "Stable", Classic: &classic.Description{State: "Stable", ProtocolType: "consumer", Protocol: "range", Members: []classic.MemberDescription{
			{MemberID: "m", InstanceID: &inst, ClientID: "app", Host: "/10.0.0.1", Metadata: []byte("meta"), Assignment: []byte("mine")}}}},
		"e": {State: "Empty", Classic: &classic.Description{State: "Empty"}},
		"n": {State: "Reconciling", Consumer: &groups.Consumer{Epoch: 5, TargetEpoch: 4, Assignor: "range",
			Members: map[string]*groups.ConsumerMember{
				"b": {ID: "b", Epoch: 3, Topics: []string{"t"}, Classic: &groups.ClassicSession{}},
				"a": {ID: "a", InstanceID: &inst, RackID: &rack, ClientID: "app", Host: "/10.0.0.1", Regex: &regex, Epoch: 4, Assigned: groups.Assignment{id: {0}, {1, 2, 3}: {9}}},
			},
			Target: map[string]groups.Assignment{"a": {id: {0, 1}}}}},
	}
}

// Every version of DescribeGroups tells of classic groups; of others that they are dead.
func TestDescribeGroupsEveryVersion(t *testing.T) {
	f := &fakeShard{}
	c, _, id := dialFake(t, f, nil)
	f.described = describable(id)
	for v := int16(0); v <= 6; v++ {
		got := c.ask(&kmsg.DescribeGroupsRequest{Version: v, Groups: []string{"c", "e", "n", "none"}, IncludeAuthorizedOperations: true}).(*kmsg.DescribeGroupsResponse)
		line := ""
		for _, g := range got.Groups {
			line += fmt.Sprintf("%s:%d:%s:%s:%s:%d:%v:%v ", g.Group, g.ErrorCode, g.State, g.ProtocolType, g.Protocol, len(g.Members), g.ErrorMessage != nil, g.AuthorizedOperations == acl.Supported(acl.Group))
		}
		ops := v >= 3
		dead := fmt.Sprintf("n:0:Dead:::0:false:%v none:0:Dead:::0:false:%[1]v ", ops)
		if v >= 6 {
			dead = "n:69:Dead:::0:true:false none:69:Dead:::0:true:false "
		}
		if want := fmt.Sprintf("c:0:Stable:consumer:range:1:false:%v e:0:Empty:::0:false:%[1]v ", ops) + dead; line != want {
			t.Errorf("version %d: %s, want %s", v, line, want)
		}
		inst := "i1"
		want := kmsg.DescribeGroupsResponseGroupMember{MemberID: "m", InstanceID: from(v, 4, &inst), ClientID: "app", ClientHost: "/10.0.0.1",
			ProtocolMetadata: []byte("meta"), MemberAssignment: []byte("mine")}
		if m := got.Groups[0].Members[0]; !reflect.DeepEqual(m, want) {
			t.Errorf("version %d: member %+v, want %+v", v, m, want)
		}
		if v >= 3 && c.ask(&kmsg.DescribeGroupsRequest{Version: v, Groups: []string{"c"}}).(*kmsg.DescribeGroupsResponse).Groups[0].AuthorizedOperations != -1<<31 {
			t.Errorf("version %d: operations are told to who did not ask", v)
		}
	}
}

func TestConsumerGroupDescribe(t *testing.T) {
	f := &fakeShard{}
	c, _, id := dialFake(t, f, nil)
	f.described = describable(id)
	f.described["new"] = groupshard.Description{State: "Empty", Consumer: &groups.Consumer{}}
	for v := int16(0); v <= 1; v++ {
		got := c.ask(&kmsg.ConsumerGroupDescribeRequest{Version: v, Groups: []string{"n", "c", "none", "new"}, IncludeAuthorizedOperations: true}).(*kmsg.ConsumerGroupDescribeResponse).Groups
		n := got[0]
		if n.ErrorCode != 0 || n.State != "Reconciling" || n.Epoch != 5 || n.AssignmentEpoch != 4 || n.AssignorName != "range" || n.AuthorizedOperations != acl.Supported(acl.Group) || len(n.Members) != 2 {
			t.Fatalf("version %d: %+v", v, n)
		}
		a, b := n.Members[0], n.Members[1]
		kinds := []int8{1, 0}
		if v == 0 {
			kinds = []int8{-1, -1}
		}
		if a.MemberID != "a" || *a.InstanceID != "i1" || *a.RackID != "r1" || a.MemberEpoch != 4 || a.ClientID != "app" || a.ClientHost != "/10.0.0.1" || *a.SubscribedTopicRegex != "t.*" ||
			a.MemberType != kinds[0] || b.MemberID != "b" || b.MemberType != kinds[1] || !slices.Equal(b.SubscribedTopics, []string{"t"}) || or(b.SubscribedTopicRegex, "null") != "" {
			t.Errorf("version %d: %+v %+v", v, a, b)
		}
		// Of a topic that is deleted nothing is told.
		want := []kmsg.AssignmentTopicPartition{{TopicID: id, Topic: "t", Partitions: []int32{0}}}
		target := []kmsg.AssignmentTopicPartition{{TopicID: id, Topic: "t", Partitions: []int32{0, 1}}}
		if !reflect.DeepEqual(a.Assignment.TopicPartitions, want) || !reflect.DeepEqual(a.TargetAssignment.TopicPartitions, target) || len(b.Assignment.TopicPartitions) != 0 {
			t.Errorf("version %d: %+v %+v", v, a.Assignment, a.TargetAssignment)
		}
		for _, g := range got[1:3] {
			if g.ErrorCode != 69 || g.ErrorMessage == nil || g.AuthorizedOperations != -1<<31 {
				t.Errorf("version %d: %+v", v, g)
			}
		}
		if got[3].ErrorCode != 0 || got[3].AssignorName != "uniform" {
			t.Errorf("version %d, without a target yet: %+v", v, got[3])
		}
	}
}

// ListGroups tells what it is asked for, and nothing while it does not know all (G-07).
func TestListGroupsEveryVersion(t *testing.T) {
	f := &fakeShard{listed: []groupshard.Listed{{Group: "a", ProtocolType: "consumer", State: "Stable", Type: "classic"},
		{Group: "b", ProtocolType: "connect", State: "Empty", Type: "classic"}, {Group: "c", ProtocolType: "consumer", State: "Reconciling", Type: "consumer"}}}
	c, _, _ := dialFake(t, f, nil)
	for _, tc := range []struct {
		since         int16
		states, types []string
		want          string
	}{
		{0, nil, nil, "abc"}, {4, []string{"stable", "EMPTY"}, nil, "ab"}, {4, []string{"Odd"}, nil, ""},
		{5, nil, []string{"Classic"}, "ab"}, {5, []string{"Reconciling", "Stable"}, []string{"consumer"}, "c"}, {5, nil, []string{"share"}, ""},
	} {
		for v := tc.since; v <= 5; v++ {
			got := c.ask(&kmsg.ListGroupsRequest{Version: v, StatesFilter: tc.states, TypesFilter: tc.types}).(*kmsg.ListGroupsResponse)
			names := ""
			for _, g := range got.Groups {
				names += g.Group
				l := f.listed[strings.Index("abc", g.Group)]
				if g.ProtocolType != l.ProtocolType || g.GroupState != from(v, 4, l.State) || g.GroupType != from(v, 5, l.Type) {
					t.Errorf("version %d: %+v of %+v", v, g, l)
				}
			}
			if names != tc.want && v >= 5 || v == 4 && tc.types == nil && names != tc.want {
				t.Errorf("version %d of %v %v: %s, want %s", v, tc.states, tc.types, names, tc.want)
			}
		}
	}
	for v := int16(0); v <= 5; v++ {
		f.opening = true
		if got := c.ask(&kmsg.ListGroupsRequest{Version: v}).(*kmsg.ListGroupsResponse); got.ErrorCode != 14 || len(got.Groups) != 0 {
			t.Errorf("version %d, while a shard is opened: %+v", v, got)
		}
		f.opening, f.err = false, kerr.CoordinatorNotAvailable
		if got := c.ask(&kmsg.ListGroupsRequest{Version: v}).(*kmsg.ListGroupsResponse); got.ErrorCode != 15 || len(got.Groups) != 0 {
			t.Errorf("version %d, while one is stuck: %+v", v, got)
		}
		f.err = nil
	}
	f.listed, f.err = nil, kerr.NotCoordinator // it has gone since: its new owner lists it
	if got := c.ask(&kmsg.ListGroupsRequest{Version: 5}).(*kmsg.ListGroupsResponse); got.ErrorCode != 0 {
		t.Errorf("of a shard that has gone: %+v", got)
	}
}

func TestDeleteGroups(t *testing.T) {
	f := &fakeShard{}
	c, _, _ := dialFake(t, f, nil)
	for v := int16(0); v <= 3; v++ {
		for _, err := range []error{nil, kerr.NonEmptyGroup, fmt.Errorf("%w: g", kerr.GroupIDNotFound)} {
			f.err, f.calls = err, nil
			got := c.ask(&kmsg.DeleteGroupsRequest{Version: v, Groups: []string{"g", "h", "g"}}).(*kmsg.DeleteGroupsResponse).Groups
			if len(got) != 2 || len(f.calls) != 2 || got[0].Group != "g" || got[0].ErrorCode != codeOf(err) || (got[0].ErrorMessage != nil) != (v >= 3 && err != nil) {
				t.Errorf("version %d, %v: %+v", v, err, got)
			}
		}
	}
}

// A heartbeat of the next-generation protocol says what has changed, and is told it.
func TestConsumerGroupHeartbeat(t *testing.T) {
	f := &fakeShard{}
	c, _, id := dialFake(t, f, nil)
	inst, rack, regex, assignor := "i1", "r1", "t.*", "range"
	for v := int16(0); v <= 1; v++ {
		f.beat = consumer.HeartbeatResponse{MemberID: "m", MemberEpoch: 4, HeartbeatInterval: 5 * time.Second, Assignment: groups.Assignment{id: {0, 1}, {}: {3}}}
		req := &kmsg.ConsumerGroupHeartbeatRequest{Version: v, Group: "g", MemberID: "m", MemberEpoch: 3, InstanceID: &inst, RackID: &rack, RebalanceTimeoutMillis: 60_000,
			SubscribedTopicNames: []string{"t"}, SubscribedTopicRegex: &regex, ServerAssignor: &assignor, Topics: []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: id, Partitions: []int32{1}}}}
		got := c.ask(req).(*kmsg.ConsumerGroupHeartbeatResponse)
		if got.ErrorCode != 0 || *got.MemberID != "m" || got.MemberEpoch != 4 || got.HeartbeatIntervalMillis != 5000 || got.Assignment == nil || len(got.Assignment.Topics) != 2 ||
			got.Assignment.Topics[1].TopicID != id || !slices.Equal(got.Assignment.Topics[1].Partitions, []int32{0, 1}) {
			t.Errorf("version %d: %+v", v, got)
		}
		asked := f.last(t).(consumer.HeartbeatRequest)
		wanted := consumer.HeartbeatRequest{GroupID: "g", Version: v, MemberID: "m", NewID: asked.NewID, MemberEpoch: 3, InstanceID: &inst, RackID: &rack, RebalanceTimeout: time.Minute,
			ClientID: "test", Host: "/127.0.0.1", Tenant: "127.0.0.1", Topics: []string{"t"}, Regex: from(v, 1, &regex), ServerAssignor: &assignor, Owned: []groups.TopicPartitions{{Topic: id, Partitions: []int32{1}}}}
		if !reflect.DeepEqual(asked, wanted) || asked.NewID == "" {
			t.Errorf("version %d asks %+v, want %+v", v, asked, wanted)
		}
		f.beat.Assignment = nil
		none := &kmsg.ConsumerGroupHeartbeatRequest{Version: v, Group: "g", MemberID: "m", MemberEpoch: 4, RebalanceTimeoutMillis: -1}
		if got := c.ask(none).(*kmsg.ConsumerGroupHeartbeatResponse); got.Assignment != nil {
			t.Errorf("version %d, nothing new: %+v", v, got.Assignment)
		}
		if asked := f.last(t).(consumer.HeartbeatRequest); asked.Topics != nil || asked.Owned != nil || asked.Regex != nil || asked.RebalanceTimeout >= 0 {
			t.Errorf("version %d, nothing said: %+v", v, asked)
		}
		f.beat.Assignment = groups.Assignment{}
		none.SubscribedTopicNames, none.Topics = []string{}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if got := c.ask(none).(*kmsg.ConsumerGroupHeartbeatResponse); got.Assignment == nil || len(got.Assignment.Topics) != 0 {
			t.Errorf("version %d, nothing assigned: %+v", v, got.Assignment)
		}
		if asked := f.last(t).(consumer.HeartbeatRequest); asked.Topics == nil || asked.Owned == nil {
			t.Errorf("version %d, said that there is nothing: %+v", v, asked)
		}
		f.err = fmt.Errorf("%w: why", kerr.FencedMemberEpoch)
		if got := c.ask(none).(*kmsg.ConsumerGroupHeartbeatResponse); got.ErrorCode != 110 || got.ErrorMessage == nil || *got.ErrorMessage != "why" || got.MemberID != nil || got.Assignment != nil {
			t.Errorf("version %d, refused: %+v", v, got)
		}
		f.err = nil
	}
}

// What a member is still to give up is told, and so has to be described by whoever asks.
func TestConsumerGroupDescribeRevoking(t *testing.T) {
	n := startNode(t, t.TempDir())
	id := dial(t, n.Addr()).create("secret", 1)
	view := n.broker.View()
	host := netip.MustParseAddr("10.0.0.1")
	r := &request{subject: acl.New(view.ACLs(), acl.Options{}).Of(auth.User("bob"), host), conn: &conn{s: n.server}}
	topics := groups.Assignment{id: {0}}
	for what, g := range map[string]*groups.Consumer{
		"has":          {Members: map[string]*groups.ConsumerMember{"m": {Assigned: topics}}},
		"is to have":   {Members: map[string]*groups.ConsumerMember{"m": {}}, Target: map[string]groups.Assignment{"m": topics}},
		"is to revoke": {Members: map[string]*groups.ConsumerMember{"m": {Revoking: topics}}},
	} {
		if err := deniedMembers(r, view, g); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("a member %s what who asks may not describe: %v", what, err)
		}
	}
}
