package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// firsts are the first words of lines.
func firsts(out string) (words []string) {
	for line := range strings.Lines(out) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		words = append(words, word)
	}
	return words
}

func TestLogFilters(t *testing.T) {
	dir := newGroupsVolume(t)
	for _, c := range []struct {
		args, want string
	}{
		{"--type TopicCreated,ShardsMade", "[1-2 3-1]"},
		{"--topic orders", "[1-2]"},
		{"--broker 7 --type BrokerRegistered", "[1-1 2-1]"},
		{"--broker 8", "[]"},
		{"--since 2026-11-29T12:00:00Z --type ShardsMade", "[3-1]"},
		{"--since 2026-11-29T12:00:01Z", "[]"},
		{"--until 2026-11-29T11:59:59Z", "[]"},
		{"--group billing --type TxnOffsetsStaged", "[1-2 ]"},
		{"--group my-group", "[1-1  ]"},
		{"--group my-group --topic none", "[]"},
		{"--stream groups/05 --producer 77", "[1-2 ]"},
	} {
		out, err := run(append([]string{"--dir", dir, "log"}, strings.Fields(c.args)...)...)
		check(t, err)
		if got := fmt.Sprint(firsts(out)); got != c.want {
			t.Errorf("log %s has %s, want %s:\n%s", c.args, got, c.want, out)
		}
	}
}

// TestLogFormats: an empty history is one in every format, and a list is read back.
func TestLogFormats(t *testing.T) {
	dir := newGroupsVolume(t)
	out, err := run("--dir", dir, "log", "--topic", "none", "-o", "json")
	check(t, err)
	if out != "[]\n" {
		t.Errorf("no entries are %q", out)
	}
	out, err = run("--dir", dir, "log", "--stream", "groups/05", "-o", "json")
	check(t, err)
	var all []logEntry
	check(t, json.Unmarshal([]byte(out), &all))
	if len(all) != 4 || all[1].Events[0].Type != "OffsetsCommitted" || !strings.Contains(all[1].Events[0].Text, "orders/0=41") {
		t.Errorf("as JSON: %+v", all)
	}
	out, err = run("--dir", dir, "log", "-o", "yaml")
	check(t, err)
	if strings.Count(out, "\n- position: ")+strings.Count(out[:12], "- position: ") != 8 {
		t.Errorf("as YAML:\n%s", out)
	}
}

// screenOfTest collects what a command writes, and tells of each writing.
type screenOfTest struct {
	mu    sync.Mutex
	text  strings.Builder
	wrote chan struct{}
}

func (s *screenOfTest) Write(b []byte) (int, error) {
	s.mu.Lock()
	s.text.Write(b)
	s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return len(b), nil
}

// await waits for text to be there, and returns all.
func (s *screenOfTest) await(t *testing.T, text string) string {
	t.Helper()
	for {
		s.mu.Lock()
		all := s.text.String()
		s.mu.Unlock()
		if strings.Contains(all, text) {
			return all
		}
		select {
		case <-s.wrote:
		case <-t.Context().Done():
			t.Fatalf("%q did not come:\n%s", text, all)
		}
	}
}

// TestLogFollow: what is published, an entry that is undecided and then disowned, and who
// takes over, as it happens.
func TestLogFollow(t *testing.T) {
	dir := newVolume(t)
	ctx, cancel := context.WithCancel(context.Background())
	out := &screenOfTest{wrote: make(chan struct{}, 1)}
	cmd := rootCommand(out)
	cmd.SetArgs([]string{"--dir", dir, "log", "--follow", "--interval", "5ms"})
	var err error
	var done sync.WaitGroup
	done.Go(func() { err = cmd.ExecuteContext(ctx) })
	out.await(t, "2-1 ")

	v, s, w := claimCluster(t, dir, 3)
	publishCluster(t, w, "more", &projections.BrokerRegistered{ID: 8, Epoch: 3})
	out.await(t, "broker 8 registered")
	publishCluster(t, w, "even more", &projections.BrokerFenced{ID: 8, Epoch: 3})
	out.await(t, "broker 8 fenced")
	check(t, v.Seal(ctx, s.ID()))
	_, s2, w2 := claimCluster(t, dir, 4)
	out.await(t, "epoch 4 was taken over by node 7, nothing published yet")
	publishCluster(t, w2, "again", &projections.BrokerUnfenced{ID: 8, Epoch: 3})
	all := out.await(t, "broker 8 unfenced")
	cancel()
	done.Wait()
	check(t, err)
	if n := strings.Count(all, "\n3-1 "); n != 1 {
		t.Errorf("3-1 was told %d times:\n%s", n, all)
	}
	for _, x := range []*substrate.Session{s, s2} {
		check(t, x.Close(context.Background()))
	}
	check(t, w.Abandon(context.Background()))
	check(t, w2.Abandon(context.Background()))
}

type clusterWriter = metalog.Writer[*projections.Cluster]

func claimCluster(t *testing.T, dir string, e substrate.Epoch) (*substrate.Volume, *substrate.Session, *clusterWriter) {
	t.Helper()
	fs, err := substrate.OpenDir(dir)
	check(t, err)
	v, err := substrate.ReadVolume(fs)
	check(t, err)
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: 7})
	check(t, err)
	w, err := metalog.Claim(context.Background(), s, v.MetaDir()+"/cluster", e, projections.ClusterSchema(), metalog.Options{Node: 7, Followed: true})
	check(t, err)
	return v, s, w
}

func publishCluster(t *testing.T, w *clusterWriter, reason string, fs ...projections.Fact) {
	t.Helper()
	_, err := w.Publish(context.Background(), reason, func(*projections.Cluster) ([]metalog.Event, error) { return projections.NewEvents(fs...) })
	check(t, err)
}

// TestTakenOver: a claim without an entry and an owner that is sealed are told, and the state
// is shown as it is.
func TestTakenOver(t *testing.T) {
	ctx := context.Background()
	dir := newVolume(t)
	v, s, w := claimCluster(t, dir, 3)
	publishCluster(t, w, "last words", &projections.BrokerRegistered{ID: 8, Epoch: 3})
	check(t, v.Seal(ctx, s.ID()))
	out, err := run("--dir", dir, "log")
	check(t, err)
	has(t, out, `"last words" [UNDECIDED] broker 8 registered`)
	out, err = run("--dir", dir, "dump")
	check(t, err)
	has(t, out, "position: 3-1\nstatus: undecided\n", "id: 8\n")
	_, s2, w2 := claimCluster(t, dir, 4)
	out, err = run("--dir", dir, "log")
	check(t, err)
	has(t, out, "4-0 epoch 4 was taken over by node 7, nothing published yet [session "+s2.ID()+"]\n")
	out, err = run("--dir", dir, "dump")
	check(t, err)
	has(t, out, "position: 3-1\nstatus: undecided\ntaken_over:\n- epoch: 4\n")
	check(t, w.Abandon(ctx))
	check(t, w2.Abandon(ctx))
	check(t, s.Close(ctx))
	check(t, s2.Close(ctx))
}

func TestDiff(t *testing.T) {
	dir := newGroupsVolume(t)
	out, err := run("--dir", dir, "diff", "1-1", "2-1")
	check(t, err)
	has(t, out, "cluster from 1-1 to 2-1: 4 changes\n", "~ broker 7: epoch 1 → 2\n", "+ topic orders: id "+ordersID.String(), "+ partition orders/1: leader -1, leader_epoch 0\n")
	out, err = run("--dir", dir, "diff", "--stream", "groups/05", "1-1", "1-2")
	check(t, err)
	has(t, out, "~ offset billing orders/0: offset 41 → 42\n", "+ staged_offset billing producer 77 epoch 3 orders/1: offset 99")
	out, err = run("--dir", dir, "diff", "2-1", "1-1", "--kind", "topic,broker")
	check(t, err)
	has(t, out, "2 changes\n~ broker 7: epoch 2 → 1\n- topic orders: id ")
	out, err = run("--dir", dir, "diff", "--stream", "all", "2026-11-29T11:00:00Z", "latest", "-o", "json")
	check(t, err)
	var all []difference
	check(t, json.Unmarshal([]byte(out), &all))
	var got []string
	for _, d := range all {
		got = append(got, fmt.Sprintf("%s %s %s %v", d.Stream, d.From, d.To, len(d.Changes) > 0))
	}
	if want := "[cluster none 3-2 true groups/02 none 1-2 true groups/05 none 1-3 true]"; fmt.Sprint(got) != want {
		t.Errorf("all streams: %v", got)
	}
}

func TestShow(t *testing.T) {
	dir := newGroupsVolume(t)
	_, s, w := claimCluster(t, dir, 4)
	publishCluster(t, w, "move", &projections.PartitionLeaderChanged{TopicID: ordersID, Partition: 1, Leader: 7, Epoch: 1})
	publishCluster(t, w, "config", &projections.ConfigChanged{Resource: projections.ResourceTopic, Name: "orders", TopicID: ordersID, Set: map[string]string{"retention.ms": "5"}})
	publishCluster(t, w, "fence", &projections.ProducerFenced{ProducerID: 77, Epoch: 4, Time: 1000})
	publishCluster(t, w, "fence", &projections.ProducerFenced{ProducerID: 77, Epoch: 5, Time: 2000})
	publishCluster(t, w, "gone", &projections.TopicDeleted{ID: ordersID, Name: "orders"})
	check(t, w.Abandon(context.Background()))
	check(t, s.Close(context.Background()))
	for _, c := range []struct {
		args string
		want []string
	}{
		{"topic orders --history", []string{"deleted_topic " + ordersID.String() + " name orders\n", `"CreateTopics from a client" + topic orders: id`,
			"+ config topic orders: retention.ms 5\n", `"gone" - topic orders: id `, "+ deleted_topic " + ordersID.String() + ": name orders\n"}},
		{"topic orders --at 4-2", []string{"config topic orders retention.ms 5\n", "partition orders/1 leader 7, leader_epoch 1\n"}},
		{"partition orders/1 --history", []string{"not there\n", `"move" ~ partition orders/1: leader -1 → 7, leader_epoch 0 → 1`, "- partition orders/1: leader 7"}},
		{"broker 7 --history", []string{"broker 7 epoch 2, fenced false", `1-1 2026-11-29T12:00:00.000Z node 7 "broker 7 started" + broker 7: epoch 1`, "~ broker 7: epoch 1 → 2\n"}},
		{"group billing --history", []string{"offset billing orders#" + ordersID.String() + "/0 offset 42, leader_epoch 3", "~ offset billing orders#" + ordersID.String() + "/0: offset 41 → 42", "+ member billing m-1: client app"}},
		{"producer 77 --history", []string{"producer_fence 77 epoch 5", "+ producer_fence 77: epoch 4", "~ producer_fence 77: epoch 4 → 5"}},
		{"shard groups/05", []string{"shard groups/05 owner -1, epoch 0\n"}},
	} {
		out, err := run(append([]string{"--dir", dir, "show"}, strings.Fields(c.args)...)...)
		if err != nil {
			t.Errorf("show %s: %v", c.args, err)
			continue
		}
		has(t, strings.ReplaceAll(out, "\n  ", " "), c.want...)
	}
	out, err := run("--dir", dir, "show", "producer", "77", "--history", "-o", "json")
	check(t, err)
	var l life
	check(t, json.Unmarshal([]byte(out), &l))
	if len(l.Objects) != 1 || len(l.History) != 2 || l.History[1].Position != "4-4" || *l.History[0].Node != 7 || l.History[1].Changes[0].Fields[0].New != 5.0 {
		t.Errorf("as JSON: %+v", l)
	}
	for args, want := range map[string]string{"topic none": `no topic "none"`, "partition orders": "TOPIC/NUMBER", "cat x": "must be one of", "broker x": "not a number", "group billing --at 1-1": "name a time"} {
		if _, err := run(append([]string{"--dir", dir, "show"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("show %s: %v, want %q", args, err, want)
		}
	}
}
