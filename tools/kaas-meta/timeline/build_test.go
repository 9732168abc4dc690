package timeline

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// volume is a real one, whose clock goes on by a minute an entry.
type volume struct {
	t   *testing.T
	dir string
	v   *substrate.Volume
	now time.Time
}

func (v *volume) clock() time.Time {
	v.now = v.now.Add(time.Minute)
	return v.now
}

// owns claims a stream for a node, has it publish, and leaves as a crash would.
func owns[S any](v *volume, node int32, stream string, e substrate.Epoch, schema *metalog.Schema[S], publish func(func(reason string, evs []metalog.Event))) {
	v.t.Helper()
	ctx := context.Background()
	s, err := v.v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: node})
	check(v.t, err)
	w, err := metalog.Claim(ctx, s, stream, e, schema, metalog.Options{Node: node, Now: v.clock})
	check(v.t, err)
	publish(func(reason string, evs []metalog.Event) {
		_, err := w.Publish(ctx, reason, func(S) ([]metalog.Event, error) { return evs, nil })
		check(v.t, err)
	})
	check(v.t, w.Abandon(ctx))
	check(v.t, s.Close(ctx))
}

// newVolume has a topic made, led by 1 and deleted in the cluster's stream, another that
// stays, and a group and a transaction upon them.
func newVolume(t *testing.T) *volume {
	t.Helper()
	v := &volume{t: t, dir: t.TempDir(), now: noon}
	fs, err := substrate.OpenDir(v.dir)
	check(t, err)
	v.v, err = substrate.OpenVolume(fs, "test-cluster")
	check(t, err)
	meta := v.v.MetaDir()
	for _, dir := range []string{"meta", meta, meta + "/groups", meta + "/txns"} {
		check(t, v.v.EnsureDir(dir))
	}
	cluster, group, txn := meta+"/cluster", groups.Stream(meta, 7), txns.Stream(meta, 3)
	check(t, metalog.Ensure(v.v, cluster, projections.ClusterSchema(), "cluster created", v.now))
	check(t, metalog.Ensure(v.v, group, groups.Schema(), "shard made", v.now))
	check(t, metalog.Ensure(v.v, txn, txns.Schema(), "shard made", v.now))
	check(t, partition.BuildTopic(v.v, "maker", topicID(2), "stays", 1, v.now))
	owns(v, 1, cluster, 1, projections.ClusterSchema(), func(publish func(string, []metalog.Event)) {
		publish("broker 1 is controller", facts(t, &projections.ControllerChanged{Node: 1}, &projections.BrokerRegistered{ID: 1, Epoch: 1}))
		publish("CreateTopics", facts(t, &projections.TopicCreated{ID: topicID(1), Name: "goes", Partitions: 1},
			&projections.PartitionLeaderChanged{TopicID: topicID(1), Partition: 0, Leader: 1, Epoch: 1}))
		publish("CreateTopics", facts(t, &projections.TopicCreated{ID: topicID(2), Name: "stays", Partitions: 1}))
	})
	owns(v, 1, group, 1, groups.Schema(), func(publish func(string, []metalog.Event)) {
		publish("taken over", nil)
		publish("commit", groupFacts(t, &groups.OffsetsCommitted{Group: "billing", Time: v.now.UnixMilli(), Topics: []groups.TopicOffsets{
			{Topic: topicID(1), Partitions: []groups.PartitionOffset{{Partition: 0, Offset: 41, LeaderEpoch: -1, Expires: -1}}}}}))
	})
	owns(v, 1, txn, 1, txns.Schema(), func(publish func(string, []metalog.Event)) {
		publish("transaction", txnFacts(t, &txns.TxnChanged{Txn: txns.Txn{ID: "etl", ProducerID: 4, Epoch: 1, LastEpoch: txns.NoEpoch, PrevProducerID: txns.NoProducer,
			NextProducerID: txns.NoProducer, State: txns.Ongoing, Timeout: 1000, Started: 1, Updated: 1, Partitions: txns.Partitions{{Topic: topicID(2), Index: 0}}}}))
	})
	owns(v, 2, cluster, 2, projections.ClusterSchema(), func(publish func(string, []metalog.Event)) {
		publish("broker 2 is controller", facts(t, &projections.ControllerChanged{Node: 2}, &projections.BrokerRegistered{ID: 2, Epoch: 2}))
		publish("DeleteTopics", facts(t, &projections.TopicDeleted{ID: topicID(1), Name: "goes"}))
		publish("files gone", facts(t, &projections.TopicRemoved{ID: topicID(1)}))
	})
	return v
}

func (v *volume) build(opt Options) *Timeline {
	v.t.Helper()
	tl, err := Build(context.Background(), v.v, opt)
	check(v.t, err)
	return tl
}

func TestBuild(t *testing.T) {
	defer goleak.VerifyNone(t)
	v := newVolume(t)
	tl := v.build(Options{})
	if tl.Cluster != "test-cluster" || len(tl.Notes) > 0 {
		t.Errorf("cluster %q, notes %q", tl.Cluster, tl.Notes)
	}
	wantSpans(t, laneNamed(t, tl, SectionCluster, "controller"), "broker 1 broker 1", "broker 2 broker 2")
	wantSpans(t, laneNamed(t, tl, SectionTopics, "goes"), "exists 0 1 partition")
	wantSpans(t, laneNamed(t, tl, SectionTopics, "goes/0"), "broker 1 broker 1, epoch 1")
	wantSpans(t, laneNamed(t, tl, SectionTxns, "etl"), "ongoing 0 open")
	l := laneNamed(t, tl, SectionGroups, "billing")
	wantSpans(t, l, "idle 0 offsets only")
	e := tl.Entries[l.Marks[0].Entry]
	if e.Stream != "groups/07" || e.Position != "1-2" || e.Node != 1 || e.Reason != "commit" || !strings.HasSuffix(e.Events[0].Text, "goes/0=41") {
		t.Errorf("the commit is %+v", e)
	}
	found := false
	for _, c := range e.Changes {
		found = found || c.Object == "offset billing goes/0" && c.Fields[0] == Field{"offset", "", "41"}
	}
	if !found {
		t.Errorf("the commit changed %+v", e.Changes)
	}
	for i := range tl.Entries {
		if i > 0 && tl.Entries[i].Time.Before(tl.Entries[i-1].Time) {
			t.Errorf("entry %d is out of order", i)
		}
	}
}

func TestBuildWindow(t *testing.T) {
	v := newVolume(t)
	all := v.build(Options{})
	// From before the deletion to before the files went.
	i := len(all.Entries) - 2
	tl := v.build(Options{Since: all.Entries[i].Time, Until: all.Entries[i].Time})
	if len(tl.Entries) != 1 || tl.Entries[0].Reason != "DeleteTopics" {
		t.Fatalf("%d entries: %+v", len(tl.Entries), tl.Entries)
	}
	if l := laneNamed(t, tl, SectionTopics, "goes"); len(l.Spans) != 1 || l.Spans[0].Entry != -1 {
		t.Errorf("the topic is shown as %+v", l)
	}
	wantSpans(t, laneNamed(t, tl, SectionBrokers, "broker 2"), "broker 2 up, epoch 2")
	wantSpans(t, laneNamed(t, tl, SectionGroups, "billing"), "idle 0 offsets only") // from before

	quiet := v.build(Options{Since: v.now.Add(time.Hour)})
	if len(quiet.Entries) != 0 {
		t.Fatalf("%d entries after the last", len(quiet.Entries))
	}
	wantSpans(t, laneNamed(t, quiet, SectionCluster, "controller"), "broker 2 broker 2")
}

func TestBuildStreams(t *testing.T) {
	v := newVolume(t)
	tl := v.build(Options{Streams: []string{"topics/stays/0", "groups/07", "groups/07"}})
	for _, e := range tl.Entries {
		if e.Stream != "topics/stays/0" && e.Stream != "groups/07" {
			t.Errorf("an entry of %s", e.Stream)
		}
	}
	if m := laneNamed(t, tl, SectionTopics, "stays/0").Marks; len(m) != 1 || m[0].Kind != KindSegment {
		t.Errorf("the partition's files are marked as %+v", m)
	}
	if !strings.Contains(tl.Entries[len(tl.Entries)-1].Events[0].Text, "goes/0") {
		t.Errorf("the topic has no name: %+v", tl.Entries[len(tl.Entries)-1].Events)
	}
	for _, bad := range []string{"groups/7", "topics/none/0", "nothing"} {
		if _, err := Build(context.Background(), v.v, Options{Streams: []string{bad}}); err == nil {
			t.Errorf("there is a stream %q", bad)
		}
	}
}

// TestBuildDamaged: what cannot be read is a mark of its own, and the rest is shown.
func TestBuildDamaged(t *testing.T) {
	v := newVolume(t)
	file := filepath.Join(v.dir, filepath.FromSlash(substrate.EntryPath(groups.Stream(v.v.MetaDir(), 7), substrate.Position{Epoch: 1, Seq: 2})))
	b, err := os.ReadFile(file)
	check(t, err)
	b[len(b)-1] ^= 1
	check(t, os.WriteFile(file, b, 0o644))
	tl := v.build(Options{})
	l := laneNamed(t, tl, SectionShards, "groups/07")
	m := l.Marks[len(l.Marks)-1]
	if e := tl.Entries[m.Entry]; m.Kind != KindTrouble || e.Position != "1-2" || !strings.HasPrefix(e.Problem, "unreadable: ") {
		t.Errorf("it is shown as %+v, %+v", m, e)
	}
	wantSpans(t, laneNamed(t, tl, SectionTxns, "etl"), "ongoing 0 open")
}
