package main

import (
	"encoding/json"
	"strings"
	"testing"

	"kaas.dev/kaas/projections"
)

// A dump tells whatever of the cluster decides who serves what.
func TestShowCluster(t *testing.T) {
	id := projections.TopicID{1, 2, 3}
	evs, err := projections.NewEvents(
		&projections.ControllerChanged{Node: 7},
		&projections.BrokerRegistered{ID: 7, Epoch: 3, Incarnation: "5f-aa", Fenced: true},
		&projections.ShardsMade{Kind: projections.ShardGroups, Count: 2},
		&projections.ShardOwnerChanged{Kind: projections.ShardGroups, Shard: 1, Owner: 7, Epoch: 4},
		&projections.TopicCreated{ID: id, Name: "orders", Partitions: 1},
		&projections.PartitionLeaderChanged{TopicID: id, Leader: 7, Epoch: 5, Handover: true},
	)
	check(t, err)
	c, err := projections.Apply(projections.NewCluster(), evs)
	check(t, err)
	b, err := json.Marshal(showCluster("x", c, false))
	check(t, err)
	for _, want := range []string{
		`"controller":7`, `"incarnation":"5f-aa","fenced":true`,
		`"shards":{"groups":[{"shard":0,"owner":-1,"epoch":0},{"shard":1,"owner":7,"epoch":4}]}`,
		`{"partition":0,"leader":7,"leader_epoch":5,"handover":true}`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("dump lacks %s:\n%s", want, b)
		}
	}
}
