package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

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

// TestVerify: sound, then each kind of file damaged in turn. Nothing is changed.
func TestVerify(t *testing.T) {
	dir := newVolume(t)
	out, err := run("--dir", dir, "verify")
	if err != nil || !strings.Contains(out, "sound") {
		t.Fatalf("%v: %s", err, out)
	}
	var files []string
	check(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(p) != substrate.HeadName {
			files = append(files, p)
		}
		return err
	}))
	for _, f := range files {
		old, err := os.ReadFile(f)
		check(t, err)
		if len(old) == 0 {
			continue // a plug
		}
		bad := bytes.Clone(old)
		bad[len(bad)-1] ^= 0x10
		check(t, os.WriteFile(f, bad, 0o644))
		rel, _ := filepath.Rel(dir, f)
		out, err := run("--dir", dir, "verify")
		if err == nil || !strings.Contains(out+err.Error(), filepath.ToSlash(rel)) {
			t.Errorf("one bit of %s flipped: %v\n%s", rel, err, out)
		}
		if rel != "volume/id" && !errors.Is(err, errFaults) {
			t.Errorf("one bit of %s flipped: %v is not the error of exit code 3", rel, err)
		}
		now, err := os.ReadFile(f)
		check(t, err)
		if !bytes.Equal(now, bad) {
			t.Errorf("verify changed %s", rel)
		}
		check(t, os.WriteFile(f, old, 0o644))
	}
}

// TestVerifyMissesNoPartition: what the cluster knows of has to be on the volume.
func TestVerifyMissesNoPartition(t *testing.T) {
	for _, gone := range []string{"topics", "topics/*", "topics/*/1"} {
		dir := newVolume(t)
		names, err := filepath.Glob(filepath.Join(dir, gone))
		check(t, err)
		if len(names) != 1 {
			t.Fatalf("%s is %v", gone, names)
		}
		check(t, os.RemoveAll(names[0]))
		out, err := run("--dir", dir, "verify")
		if !errors.Is(err, errFaults) || !strings.Contains(out, "orders-1") {
			t.Errorf("without %s: %v\n%s", gone, err, out)
		}
	}
}

// TestVerifyFindsEmptiedEntries: a file of no bytes is a plug only where somebody
// can have plugged.
func TestVerifyFindsEmptiedEntries(t *testing.T) {
	dir := newVolume(t)
	entries, err := filepath.Glob(filepath.Join(dir, "meta/*/cluster/*/*.snap"))
	check(t, err)
	for _, f := range entries {
		old, err := os.ReadFile(f)
		check(t, err)
		if len(old) == 0 {
			continue
		}
		check(t, os.WriteFile(f, nil, 0o644))
		rel, _ := filepath.Rel(dir, f)
		if out, err := run("--dir", dir, "verify"); !errors.Is(err, errFaults) || !strings.Contains(out, rel) {
			t.Errorf("%s emptied: %v\n%s", rel, err, out)
		}
		check(t, os.WriteFile(f, old, 0o644))
	}
}

// TestVerifyDeep reads what is in the segments.
func TestVerifyDeep(t *testing.T) {
	ctx := context.Background()
	dir := newVolume(t)
	fs, err := substrate.OpenDir(dir)
	check(t, err)
	v, err := substrate.ReadVolume(fs)
	check(t, err)
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData})
	check(t, err)
	p, err := partition.Open(ctx, s, projections.TopicID{1, 2, 3}, "orders", 0, 1, partition.Config{})
	check(t, err)
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1}
	r := kmsg.Record{Value: []byte("hello"), Key: nil}
	body := r.AppendTo(nil)
	r.Length = int32(len(body) - 1)
	b.Records = r.AppendTo(nil)
	b.Length = int32(49 + len(b.Records))
	raw := b.AppendTo(nil)
	b.CRC = int32(substrate.CRC32C(raw[21:]))
	a, err := p.Append(ctx, b.AppendTo(nil))
	check(t, err)
	check(t, a.Wait(ctx))
	check(t, p.Relinquish(ctx))
	check(t, s.Close(ctx))
	out, err := run("--dir", dir, "verify", "--deep")
	if err != nil || !strings.HasSuffix(out, "\nsound\n") {
		t.Fatalf("%v: %s", err, out)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "topics/*/0/*.log"))
	check(t, err)
	data, err := os.ReadFile(logs[0])
	check(t, err)
	data[bytes.Index(data, []byte("hello"))] ^= 1
	check(t, os.WriteFile(logs[0], data, 0o644))
	if out, err := run("--dir", dir, "verify", "--deep"); !errors.Is(err, errFaults) || !strings.Contains(out, filepath.Base(logs[0])+": ") || !strings.Contains(out, "checksum") {
		t.Fatalf("%v: %s", err, out)
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
