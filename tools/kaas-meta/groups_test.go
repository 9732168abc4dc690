package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

var (
	ordersID  = projections.TopicID{1, 2, 3}
	unknownID = projections.TopicID{9}
)

// publisher writes to a stream as its owner would.
func publisher[S any](t *testing.T, dir, stream string, e substrate.Epoch, sc *metalog.Schema[S], do func(publish func(reason string, evs []metalog.Event, err error))) {
	t.Helper()
	ctx := context.Background()
	fs, err := substrate.OpenDir(dir)
	check(t, err)
	v, err := substrate.ReadVolume(fs)
	check(t, err)
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: 7})
	check(t, err)
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	stream = v.MetaDir() + "/" + stream
	check(t, v.EnsureDir(filepath.Dir(stream)))
	check(t, metalog.Ensure(v, stream, sc, "shard begun", now))
	w, err := metalog.Claim(ctx, s, stream, e, sc, metalog.Options{Node: 7, Now: func() time.Time { return now }})
	check(t, err)
	do(func(reason string, evs []metalog.Event, err error) {
		t.Helper()
		check(t, err)
		_, err = w.Publish(ctx, reason, func(S) ([]metalog.Event, error) { return evs, nil })
		check(t, err)
	})
	check(t, w.Close(ctx))
	check(t, s.Close(ctx))
}

// newGroupsVolume adds 16 shards of groups to newVolume, of which two have been owned:
// that of billing and that of my-group.
func newGroupsVolume(t *testing.T) string {
	t.Helper()
	dir := newVolume(t)
	publisher(t, dir, "cluster", 3, projections.ClusterSchema(), func(publish func(string, []metalog.Event, error)) {
		evs, err := projections.NewEvents(&projections.ShardsMade{Kind: projections.ShardGroups, Count: 16})
		publish("shards", evs, err)
	})
	a := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "orders", Partitions: []int32{0, 1, 2, 5}}}}
	instance := "static-1"
	publisher(t, dir, "groups/"+shardName("billing"), 1, groups.Schema(), func(publish func(string, []metalog.Event, error)) {
		evs, err := groups.NewEvents(commitOf("billing", 41), &groups.ClassicGroupChanged{Group: "billing", Time: 5000, State: groups.Classic{
			ProtocolType: "consumer", Generation: 4, Protocol: "range", Leader: "m-1",
			Members: []groups.ClassicMember{{ID: "m-1", InstanceID: &instance, ClientID: "app", Host: "/10.0.0.9", Assignment: a.AppendTo(nil)}}}})
		publish("rebalance", evs, err)
		evs, err = groups.NewEvents(commitOf("billing", 42), groups.Stage(nil, "billing", 77, 3, 6000,
			[]groups.TopicOffsets{{Topic: ordersID, Partitions: []groups.PartitionOffset{{Partition: 1, Offset: 99, LeaderEpoch: -1, Expires: -1}}}}))
		publish("commit", evs, err)
	})
	publisher(t, dir, "groups/"+shardName("my-group"), 1, groups.Schema(), func(publish func(string, []metalog.Event, error)) {
		evs, err := groups.NewEvents(
			&groups.ConsumerMemberChanged{Group: "my-group", Member: groups.ConsumerMember{ID: "c-1", ClientID: "two\nlines", Epoch: 3,
				State: groups.UnrevokedPartitions, Assigned: groups.Assignment{ordersID: {0}}, Revoking: groups.Assignment{unknownID: {4}}}},
			&groups.ConsumerGroupChanged{Group: "my-group", Time: 1, Epoch: 3},
			&groups.ConsumerTargetChanged{Group: "my-group", Epoch: 3, Assignor: "uniform", Changed: groups.Targets{"c-1": {ordersID: {0, 1}}}})
		publish("heartbeat", evs, err)
	})
	return dir
}

// shardName is the shard that newGroupsVolume's groups fall into, by Kafka's rule.
func shardName(group string) string {
	return map[string]string{"billing": "05", "my-group": "02"}[group]
}

func commitOf(group string, offset int64) *groups.OffsetsCommitted {
	return &groups.OffsetsCommitted{Group: group, Time: 1_700_000_000_000, Topics: []groups.TopicOffsets{
		{Topic: ordersID, Partitions: []groups.PartitionOffset{{Partition: 0, Offset: offset, LeaderEpoch: 3, Metadata: "x", Expires: -1}}},
		{Topic: unknownID, Partitions: []groups.PartitionOffset{{Partition: 4, Offset: 7, LeaderEpoch: -1, Expires: 1_700_000_001_000}}},
	}}
}

func has(t *testing.T, out string, lines ...string) {
	t.Helper()
	flat := regexp.MustCompile(` +`).ReplaceAllString(out, " ")
	for _, l := range lines {
		if !strings.Contains(flat, l) {
			t.Errorf("output lacks %q:\n%s", l, out)
		}
	}
}

func TestGroups(t *testing.T) {
	dir := newGroupsVolume(t)
	out, err := run("--dir", dir, "groups")
	check(t, err)
	has(t, out, "billing 05 classic Stable 1 2 1 -\n", "my-group 02 consumer Reconciling 1 0 0 -\n")
	if strings.Index(out, "billing") > strings.Index(out, "my-group") {
		t.Errorf("groups are not in order:\n%s", out)
	}
	out, err = run("--dir", dir, "groups", "-o", "json")
	check(t, err)
	var all []groupState
	check(t, json.Unmarshal([]byte(out), &all))
	if len(all) != 2 || all[0].ID != "billing" || all[0].Offsets[1].Topic != "orders" || all[0].Members[0].Assigned["orders"][3] != 5 {
		t.Errorf("JSON is %s", out)
	}
}

func TestOneGroup(t *testing.T) {
	dir := newGroupsVolume(t)
	out, err := run("--dir", dir, "groups", "billing")
	check(t, err)
	has(t, out, "group billing at 1-3 of groups/05: Stable, classic protocol of type consumer, generation 4, assignor range",
		"m-1 static-1 app /10.0.0.9 - - orders:0-2,5 - -\n",
		"orders 0 42 3 2023-11-14T22:13:20Z - x\n",
		unknownID.String()+" 4 7 -1 2023-11-14T22:13:20Z 2023-11-14T22:13:21Z -\n",
		"staged by producer 77 in epoch 3, and not committed:\n", "orders 1 99 -1 1970-01-01T00:00:06Z - -\n")
	out, err = run("--dir", dir, "groups", "my-group")
	check(t, err)
	has(t, out, "Reconciling, consumer protocol, epoch 3, target of epoch 3, assignor uniform",
		`c-1 - "two\nlines" - 3 revoking orders:0 `+unknownID.String()+":4 orders:0,1\n")
	out, err = run("--dir", dir, "groups", "billing", "--at", "1-1", "-o", "json")
	check(t, err)
	var g groupState
	check(t, json.Unmarshal([]byte(out), &g))
	if g.Position != "1-1" || g.Offsets[1].Offset != 41 || g.Staged != nil {
		t.Errorf("at 1-1 it is %s", out)
	}
}

func TestGroupsStreams(t *testing.T) {
	dir := newGroupsVolume(t)
	out, err := run("--dir", dir, "log", "--stream", "groups/05")
	check(t, err)
	has(t, out, "0-1 ", `1-1 2026-11-29T12:00:00.000Z node 7 "rebalance" group "billing" committed 2 partition(s): orders/0=41`,
		`group "billing" is at generation 4 with 1 member(s), assignor "range"`, `producer 77 epoch 3 staged in group "billing"`)
	out, err = run("--dir", dir, "dump", "--stream", "groups/05")
	check(t, err)
	has(t, out, "stream: groups/05", "id: billing", "topic: orders", "offset: 42")
	out, err = run("--dir", dir, "verify")
	check(t, err)
	has(t, out, " 5 streams,", "sound")
}

// Shards that nobody has owned yet, or a volume without any, are no error.
func TestShardsThatAreNotThereYet(t *testing.T) {
	dir := newVolume(t)
	out, err := run("--dir", dir, "groups", "-o", "json")
	check(t, err)
	if strings.TrimSpace(out) != "[]" {
		t.Errorf("groups without shards: %s", out)
	}
	dir = newGroupsVolume(t)
	if out, err := run("--dir", dir, "log", "--stream", "groups/15"); err != nil || out != "" {
		t.Errorf("log: %s, %v", out, err)
	}
	out, err = run("--dir", dir, "dump", "--stream", "groups/15")
	check(t, err)
	has(t, out, "groups: []")
}

func TestGroupsRefusals(t *testing.T) {
	dir := newGroupsVolume(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"groups", "nobody"}, `no group "nobody"`},
		{[]string{"groups", "billing", "--at", "0-1"}, `no group "billing" at 0-1 of groups/05`},
		{[]string{"groups", "billing", "--at", "1-9"}, "00009.snap"},
		{[]string{"groups", "--at", "1-1"}, "name the group"},
		{[]string{"groups", "billing", "--at", "x"}, `"x" is not a position`},
		{[]string{"log", "--stream", "groups/5"}, "two digits"},
		{[]string{"log", "--stream", "groups/16"}, "there are 16 shards"},
		{[]string{"dump", "--stream", "groups/15", "--at", "1-1"}, "nobody has owned it yet"},
	} {
		_, err := run(append([]string{"--dir", dir}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := run("--dir", newVolume(t), "groups", "billing"); err == nil || !strings.Contains(err.Error(), "no broker has made the shards") {
		t.Errorf("without shards: %v", err)
	}
}

// A damaged shard does not hide the others, and is an error.
func TestDamagedShard(t *testing.T) {
	dir := newGroupsVolume(t)
	files, err := filepath.Glob(filepath.Join(dir, "meta/*/groups/05/*/*.snap"))
	check(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		check(t, err)
		b[len(b)-1] ^= 1
		check(t, os.WriteFile(f, b, 0o644))
	}
	out, err := run("--dir", dir, "groups")
	if err == nil || !strings.Contains(err.Error(), "groups/05") || !strings.Contains(out, "my-group") {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := run("--dir", dir, "verify"); !errors.Is(err, errFaults) || !strings.Contains(out, "groups/05") {
		t.Errorf("verify: %v\n%s", err, out)
	}
}
