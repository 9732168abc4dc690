package server

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// A key's coordinator is the owner of its shard, if it lives, whichever broker is asked.
func TestCoordinatorOwnsTheShard(t *testing.T) {
	n := startNode(t, t.TempDir(), "offsets.topic.num.partitions=4")
	facts := []projections.Fact{&elsewhere, &projections.BrokerRegistered{ID: 6, Epoch: 1, Listeners: elsewhere.Listeners}, &projections.BrokerFenced{ID: 6, Epoch: 1},
		&projections.BrokerRegistered{ID: 6, Epoch: 7, Fenced: true}}
	owners := []int32{0, 5, 6, projections.NoLeader}
	for i, owner := range owners {
		facts = append(facts, &projections.ShardOwnerChanged{Kind: projections.ShardGroups, Shard: int32(i), Owner: owner, Epoch: 2})
	}
	view := withFacts(t, n.broker.View(), facts...)
	c := dial(t, serveAlso(t, &another{Backend: broker{n.broker}, view: func() *projections.Cluster { return view }}, n.server.clusterID)[0])
	seen := map[int32]bool{}
	for i := range 40 {
		key := fmt.Sprint("group-", i)
		shard, _ := view.ShardOf(projections.ShardGroups, key)
		seen[shard] = true
		want, code := owners[shard], int16(0)
		if shard > 1 {
			want, code = -1, kerr.CoordinatorNotAvailable.Code
		}
		for v := int16(0); v <= 6; v++ {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorKey, req.CoordinatorKeys = v, key, []string{key}
			resp := c.ask(req).(*kmsg.FindCoordinatorResponse)
			id, got := resp.NodeID, resp.ErrorCode
			if v >= 4 {
				id, got = resp.Coordinators[0].NodeID, resp.Coordinators[0].ErrorCode
			}
			if id != want || got != code {
				t.Fatalf("shard %d, version %d: %+v", shard, v, resp)
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("shards %v", seen)
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorType, req.CoordinatorKeys = 4, 1, []string{"txn"}
	if got := c.ask(req).(*kmsg.FindCoordinatorResponse).Coordinators[0]; got.NodeID != 0 || got.ErrorCode != 0 {
		t.Errorf("of a transaction: %+v", got)
	}
}

// The controller is named if clients can come to it; if not, whoever they have come to.
func TestControllerThatClientsAreTold(t *testing.T) {
	n := startNode(t, t.TempDir())
	inside := elsewhere
	inside.ID, inside.Listeners = 7, []projections.Listener{{Name: "INSIDE", Host: "seven", Port: 7}}
	for name, tc := range map[string]struct {
		facts []projections.Fact
		want  int32
	}{
		"none":        {nil, 0},
		"another":     {[]projections.Fact{&elsewhere, &projections.ControllerChanged{Node: 5}}, 5},
		"fenced":      {[]projections.Fact{&elsewhere, &projections.ControllerChanged{Node: 5}, &projections.BrokerFenced{ID: 5, Epoch: elsewhere.Epoch}}, 0},
		"unreachable": {[]projections.Fact{&inside, &projections.ControllerChanged{Node: 7}}, 0},
		"gone":        {[]projections.Fact{&projections.ControllerChanged{Node: 99}}, 0},
	} {
		view := withFacts(t, n.broker.View(), tc.facts...)
		c := dial(t, serveAlso(t, &another{Backend: broker{n.broker}, view: func() *projections.Cluster { return view }}, n.server.clusterID)[0])
		m, d := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrDescribeClusterRequest()
		m.Version = 12
		if got, also := c.ask(m).(*kmsg.MetadataResponse).ControllerID, c.ask(d).(*kmsg.DescribeClusterResponse).ControllerID; got != tc.want || also != tc.want {
			t.Errorf("%s: told %d and %d, want %d", name, got, also, tc.want)
		}
	}
}
