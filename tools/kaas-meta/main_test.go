package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// newVolume makes a volume with a broker, a topic of two partitions and, in epoch
// 2, a second broker process that was fenced before it could acknowledge.
func newVolume(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	dir := t.TempDir()
	fs, err := substrate.OpenDir(dir)
	check(t, err)
	v, err := substrate.OpenVolume(fs, "test-cluster")
	check(t, err)
	check(t, v.EnsureDir("meta"))
	check(t, v.EnsureDir(v.MetaDir()))
	cluster := v.MetaDir() + "/cluster"
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	check(t, metalog.Ensure(v, cluster, projections.ClusterSchema(), "cluster created", now))
	id := projections.TopicID{1, 2, 3}
	for e := substrate.Epoch(1); e <= 2; e++ {
		s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: 7})
		check(t, err)
		w, err := metalog.Claim(ctx, s, cluster, e, projections.ClusterSchema(), metalog.Options{Node: 7, Followed: true, Now: func() time.Time { return now }})
		check(t, err)
		publish := func(reason string, f projections.Fact) {
			_, err := w.Publish(ctx, reason, func(*projections.Cluster) ([]metalog.Event, error) { return projections.NewEvents(f) })
			check(t, err)
		}
		publish("broker 7 started", &projections.BrokerRegistered{ID: 7, Epoch: int64(e)})
		if e == 1 {
			check(t, partition.BuildTopic(v, s.ID(), id, "orders", 2, now))
			publish("CreateTopics from a client", &projections.TopicCreated{ID: id, Name: "orders", Partitions: 2})
		}
		check(t, w.Abandon(ctx))
		check(t, s.Close(ctx))
	}
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(args ...string) (string, error) {
	var out bytes.Buffer
	cmd := rootCommand(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestLog(t *testing.T) {
	dir := newVolume(t)
	out, err := run("--dir", dir, "log")
	check(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	want := [][]string{
		{"0-1 ", "birth", "cluster created", "[closed]"},
		{"1-1 ", "node 7", "2026-11-29T12:00:00.000Z", "broker 7 started"},
		{"1-2 ", "node 7", `"CreateTopics from a client"`, "orders"},
		{"1-3 ", "plug"},
		{"2-1 ", "broker 7 started"},
	}
	if len(lines) != len(want) {
		t.Fatalf("log has %d lines, want %d:\n%s", len(lines), len(want), out)
	}
	for i, parts := range want {
		for _, p := range parts {
			if !strings.Contains(lines[i], p) {
				t.Errorf("line %d lacks %q: %s", i, p, lines[i])
			}
		}
	}
	out, err = run("--dir", dir, "log", "-o", "json")
	check(t, err)
	var entries []struct {
		Position string `json:"position"`
		Events   []struct {
			Type string
			Data map[string]any
		}
	}
	check(t, json.Unmarshal([]byte(out), &entries))
	if entries[2].Position != "1-2" || entries[2].Events[0].Type != "TopicCreated" {
		t.Fatalf("entry 2 is %+v", entries[2])
	}
	out, err = run("--dir", dir, "log", "--stream", "topics/orders/1")
	check(t, err)
	if !strings.Contains(out, "orders-1") {
		t.Fatalf("manifest's log: %s", out)
	}
}

func TestDump(t *testing.T) {
	dir := newVolume(t)
	out, err := run("--dir", dir, "dump")
	check(t, err)
	for _, want := range []string{"position: 2-1", "name: orders", "partition: 1", "cluster_id: test-cluster"} {
		if !strings.Contains(out, want) {
			t.Errorf("dump lacks %q:\n%s", want, out)
		}
	}
	out, err = run("--dir", dir, "dump", "--at", "1-1", "-o", "json")
	check(t, err)
	var d struct {
		Position string
		State    struct{ Topics []any }
	}
	check(t, json.Unmarshal([]byte(out), &d))
	if d.Position != "1-1" || len(d.State.Topics) != 0 {
		t.Fatalf("dump at 1-1: %+v", d)
	}
	if _, err := run("--dir", dir, "dump", "--at", "1-9"); err == nil {
		t.Fatal("dump of a position that is not there succeeded")
	}
}

func TestRefusals(t *testing.T) {
	dir := newVolume(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"log"}, "--dir is not set"},
		{[]string{"--dir", t.TempDir(), "log"}, "not a kaas volume"},
		{[]string{"--dir", filepath.Join(dir, "nowhere"), "log"}, "nowhere"},
		{[]string{"--dir", dir, "log", "-o", "xml"}, "-o xml"},
		{[]string{"--dir", dir, "log", "--stream", "groups"}, "--stream groups"},
		{[]string{"--dir", dir, "log", "--stream", "topics/none/0"}, `no topic "none"`},
		{[]string{"--dir", dir, "dump", "--at", "43"}, `"43" is not a position`},
	} {
		_, err := run(c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
