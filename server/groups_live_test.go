package server

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// noDelay: a new group waits for nobody.
const noDelay = "group.initial.rebalance.delay.ms=0"

// awaitGroup waits until a broker coordinates the group.
func (c *client) awaitGroup(group string) {
	c.t.Helper()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got := c.ask(offsetFetchReq(8, group, nil)).(*kmsg.OffsetFetchResponse).Groups[0].ErrorCode
		if got == 0 {
			return
		}
		if time.Since(began) > patience {
			c.t.Fatalf("group %s is not coordinated: %v", group, kerr.ErrorForCode(got))
		}
	}
}

func joinReq(group, member string, instance *string) *kmsg.JoinGroupRequest {
	return &kmsg.JoinGroupRequest{Version: 5, Group: group, MemberID: member, InstanceID: instance, SessionTimeoutMillis: 30_000, RebalanceTimeoutMillis: 30_000,
		ProtocolType: "consumer", Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{}}}}
}

// member joins a group that has no members, and is its leader.
func (c *client) member(group string, instance *string) (id string, generation int32) {
	c.t.Helper()
	req := joinReq(group, "", instance)
	if instance == nil {
		got := c.ask(req).(*kmsg.JoinGroupResponse)
		if got.ErrorCode != kerr.MemberIDRequired.Code || got.MemberID == "" {
			c.t.Fatalf("first join: %+v", got)
		}
		req.MemberID = got.MemberID
	}
	got := c.ask(req).(*kmsg.JoinGroupResponse)
	if got.ErrorCode != 0 || got.LeaderID != got.MemberID {
		c.t.Fatalf("join: %+v", got)
	}
	return got.MemberID, got.Generation
}

func (c *client) syncAs(group, member string, generation int32) {
	c.t.Helper()
	req := &kmsg.SyncGroupRequest{Version: 3, Group: group, Generation: generation, MemberID: member,
		GroupAssignment: []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte("all")}}}
	if got := c.ask(req).(*kmsg.SyncGroupResponse); got.ErrorCode != 0 || string(got.MemberAssignment) != "all" {
		c.t.Fatalf("sync: %+v", got)
	}
}

func (c *client) leaveAs(group, member string) {
	c.t.Helper()
	if got := c.ask(&kmsg.LeaveGroupRequest{Group: group, MemberID: member}).(*kmsg.LeaveGroupResponse); got.ErrorCode != 0 {
		c.t.Fatalf("leave: %+v", got)
	}
}

// state is the group's as DescribeGroups has it.
func (c *client) state(group string) string {
	c.t.Helper()
	return c.ask(&kmsg.DescribeGroupsRequest{Version: 5, Groups: []string{group}}).(*kmsg.DescribeGroupsResponse).Groups[0].State
}

// commitAs commits offset of t/0 and returns the error code.
func (c *client) commitAs(group, member string, instance *string, generation int32, offset int64) int16 {
	c.t.Helper()
	req := offsetCommitReq(8, map[string][16]byte{"t": {}}, 0)
	req.Group, req.MemberID, req.InstanceID, req.Generation = group, member, instance, generation
	req.Topics[0].Partitions[0].Offset = offset
	return c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// committedOf is the group's offset of t/0.
func (c *client) committedOf(group string) int64 {
	c.t.Helper()
	g := c.ask(offsetFetchReq(8, group, map[string][16]byte{"t": {}}, 0)).(*kmsg.OffsetFetchResponse).Groups[0]
	if g.ErrorCode != 0 {
		c.t.Fatalf("offsets of %s: %v", group, kerr.ErrorForCode(g.ErrorCode))
	}
	return g.Topics[0].Partitions[0].Offset
}

// Who may commit, in each state of a group (G-03).
func TestWhoMayCommit(t *testing.T) {
	n := startNode(t, t.TempDir(), noDelay)
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.awaitGroup("g")
	mine, others := "mine", "others"
	check := func(state string, rows map[string][2]int16) {
		t.Helper()
		if got := c.state("g"); got != state {
			t.Errorf("the group is %s, want %s", got, state)
		}
		for what, codes := range rows {
			if codes[0] != codes[1] {
				t.Errorf("%s, %s: error %d, want %d", state, what, codes[0], codes[1])
			}
		}
	}
	if got := c.commitAs("g", "", &others, -1, 1); got != 0 {
		t.Errorf("nobody, no group, an instance: error %d", got)
	}
	check("Empty", map[string][2]int16{
		"nobody":                 {c.commitAs("g", "", nil, -1, 1), 0},
		"nobody, an instance":    {c.commitAs("g", "", &others, -1, 2), 0},
		"somebody":               {c.commitAs("g", "m", nil, 1, 3), 25},
		"somebody of no group":   {c.commitAs("none", "m", nil, 1, 3), 22},
		"somebody without epoch": {c.commitAs("g", "m", nil, -1, 3), 0},
	})
	id, gen := c.member("g", &mine)
	rows := func(member int16) map[string][2]int16 {
		return map[string][2]int16{
			"the member":           {c.commitAs("g", id, nil, gen, 4), member},
			"the member, instance": {c.commitAs("g", id, &mine, gen, 4), member},
			"nobody":               {c.commitAs("g", "", nil, -1, 5), 25},
			"a stranger":           {c.commitAs("g", "m", nil, gen, 5), 25},
			"an old generation":    {c.commitAs("g", id, nil, gen-1, 5), 22},
			"a generation to come": {c.commitAs("g", id, nil, gen+1, 5), 22},
			"another's instance":   {c.commitAs("g", "m", &mine, gen, 5), 82},
			"no instance":          {c.commitAs("g", id, &others, gen, 5), 25},
		}
	}
	check("CompletingRebalance", rows(27))
	c.syncAs("g", id, gen)
	check("Stable", rows(0))
	if got := c.committedOf("g"); got != 4 {
		t.Errorf("committed is %d", got)
	}
	second := dial(t, n.Addr())
	required := second.ask(joinReq("g", "", nil)).(*kmsg.JoinGroupResponse)
	second.send(joinReq("g", required.MemberID, nil))
	for began := time.Now(); c.state("g") != "PreparingRebalance"; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("a second member does not make the group rebalance")
		}
	}
	check("PreparingRebalance", rows(0))
	c.leaveAs("g", id) // the second is left, and will be alone
	second.receive()
	second.leaveAs("g", required.MemberID)
	check("Empty", map[string][2]int16{"a reset": {c.commitAs("g", "", nil, -1, 0), 0}})
	if got := c.committedOf("g"); got != 0 {
		t.Errorf("after the reset: %d", got)
	}
}

// What is committed outlives the broker; what is deleted stays deleted (G-05, G-07).
func TestGroupsOutliveTheBroker(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(t.Context(), testConfig(t, dir, noDelay), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, served(t, first).Addr())
	c.create("t", 1)
	groups := []string{"kept", "gone", "busy"}
	for i, g := range groups {
		c.awaitGroup(g)
		if code := c.commitAs(g, "", nil, -1, int64(i)); code != 0 {
			t.Fatalf("%s: error %d", g, code)
		}
	}
	id, gen := c.member("busy", nil)
	c.syncAs("busy", id, gen)
	del := &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"gone", "busy", "none"}}
	for _, g := range c.ask(del).(*kmsg.DeleteGroupsResponse).Groups {
		if want := map[string]int16{"gone": 0, "busy": 68, "none": 69}[g.Group]; g.ErrorCode != want {
			t.Errorf("delete %s: error %d, want %d", g.Group, g.ErrorCode, want)
		}
	}
	check := func() {
		t.Helper()
		for _, g := range groups {
			c.awaitGroup(g)
		}
		list := &kmsg.ListGroupsResponse{ErrorCode: kerr.CoordinatorLoadInProgress.Code} // while any shard is
		for began := time.Now(); list.ErrorCode == kerr.CoordinatorLoadInProgress.Code && time.Since(began) < patience; {
			list = c.ask(&kmsg.ListGroupsRequest{Version: 5}).(*kmsg.ListGroupsResponse)
		}
		var names []string
		for _, g := range list.Groups {
			names = append(names, g.Group)
		}
		slices.Sort(names)
		if list.ErrorCode != 0 || !slices.Equal(names, []string{"busy", "kept"}) {
			t.Errorf("listed: error %d, %v", list.ErrorCode, names)
		}
		if got := fmt.Sprint(c.committedOf("kept"), c.committedOf("gone"), c.committedOf("busy")); got != "0 -1 2" {
			t.Errorf("committed: %s", got)
		}
		if got := c.state("kept") + c.state("gone") + c.state("busy"); got != "EmptyDeadStable" {
			t.Errorf("states: %s", got)
		}
		if got := c.ask(&kmsg.HeartbeatRequest{Version: 4, Group: "busy", MemberID: id, Generation: gen}).(*kmsg.HeartbeatResponse); got.ErrorCode != 0 {
			t.Errorf("the member's heartbeat: error %d", got.ErrorCode)
		}
	}
	check()
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	c = dial(t, startNode(t, dir, noDelay).Addr())
	check()
	c.leaveAs("busy", id)
	if got := c.ask(del).(*kmsg.DeleteGroupsResponse).Groups[0]; got.Group != "busy" || got.ErrorCode != 0 {
		t.Errorf("delete after all have left: %+v", got)
	}
}

// awaitShards waits until the shards of groups are spread over the brokers and served.
func awaitShards(t *testing.T, nodes []*Node) {
	t.Helper()
	for _, n := range nodes {
		awaitCluster(t, n, "its share of the groups", func() bool {
			owned := 0
			for _, p := range n.broker.View().Shards(projections.ShardGroups) {
				if p.Leader == n.cfg.NodeID {
					owned++
				}
			}
			shards, all := n.broker.GroupShards()
			return all && len(shards) == owned && owned >= 4/len(nodes)
		})
	}
	shown := nodes[0].broker.Shown()
	for _, n := range nodes[1:] {
		if err := n.broker.AwaitShown(t.Context(), shown); err != nil {
			t.Fatal(err)
		}
	}
}

// For each group exactly one broker is the coordinator: the one that every broker names,
// with the address that Metadata has for it (G-09).
func TestOneBrokerCoordinatesAGroup(t *testing.T) {
	nodes, _ := threeNodes(t, noDelay)
	awaitShards(t, nodes)
	var clients []*client
	for _, n := range nodes {
		clients = append(clients, dial(t, n.Addr()))
	}
	addrs := map[int32]string{}
	for _, b := range clients[0].ask(metadataReq(12, false)).(*kmsg.MetadataResponse).Brokers {
		addrs[b.NodeID] = fmt.Sprint(b.Host, ":", b.Port)
	}
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("group-", i))
	}
	named := map[string]int32{}
	for i, c := range clients {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKeys = 4, names
		for _, f := range c.ask(find).(*kmsg.FindCoordinatorResponse).Coordinators {
			if f.ErrorCode != 0 || addrs[f.NodeID] != fmt.Sprint(f.Host, ":", f.Port) || i > 0 && named[f.Key] != f.NodeID {
				t.Fatalf("broker %d names %+v; before it was %d", i+1, f, named[f.Key])
			}
			named[f.Key] = f.NodeID
		}
	}
	spread := map[int32]int{}
	for _, g := range names {
		spread[named[g]]++
		clients[named[g]-1].awaitGroup(g)
		for i, c := range clients {
			want := kerr.NotCoordinator.Code
			if int32(i+1) == named[g] {
				want = kerr.MemberIDRequired.Code
			}
			if got := c.ask(joinReq(g, "", nil)).(*kmsg.JoinGroupResponse); got.ErrorCode != want {
				t.Errorf("broker %d, of %s whose coordinator is %d: error %d", i+1, g, named[g], got.ErrorCode)
			}
		}
	}
	if len(spread) != 3 {
		t.Errorf("groups are spread as %v", spread)
	}
}
