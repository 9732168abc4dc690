package rebuild

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	quiet    = slog.New(slog.NewTextHandler(io.Discard, nil))
	ordersID = projections.TopicID{0xab, 1, 15: 1}
	bg       = context.Background()
)

const (
	groupShard, txnShard = 3, 5
	oldProducer          = 7 // of the open transaction
	records              = 5 // acknowledged in each partition, by nobody's transaction
)

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// records of a batch, transactional if producer is not -1.
func batch(producer int64, epoch int16, seq int32, value string) []byte {
	rec := kmsg.Record{Value: []byte(value)}
	rec.Length = int32(len(rec.AppendTo(nil)) - 1)
	rb := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(),
		ProducerID: producer, ProducerEpoch: epoch, FirstSequence: seq, NumRecords: 1, Records: rec.AppendTo(nil)}
	if producer >= 0 {
		rb.Attributes = 1 << 4
	}
	b := rb.AppendTo(nil)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func appendTo(p *partition.Partition, b []byte, g partition.Guard) (int64, error) {
	a, err := p.AppendTxn(bg, b, g)
	if err == nil {
		err = a.Wait(bg)
	}
	if err != nil {
		return 0, err
	}
	return a.BaseOffset, nil
}

// publish writes facts to a stream under the next epoch, and leaves it as a process does
// that ends without notice.
func publish[S any](t testing.TB, v *substrate.Volume, stream string, sc *metalog.Schema[S], evs []metalog.Event, err error) {
	t.Helper()
	ok(t, err)
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: 1})
	ok(t, err)
	next, err := metalog.NextEpoch(v, stream)
	ok(t, err)
	w, err := metalog.Claim(bg, s, stream, next, sc, metalog.Options{Now: time.Now})
	ok(t, err)
	_, err = w.Publish(bg, "test", func(S) ([]metalog.Event, error) { return evs, nil })
	ok(t, err)
	ok(t, w.Abandon(bg))
	ok(t, s.Close(bg))
}

// before is what a volume held.
type before struct {
	cluster *projections.Cluster
	groups  *groups.Shard
	txns    *txns.Shard
}

// populate makes a volume as brokers leave it that are killed: a topic of two partitions
// with records, a transaction open on the first, offsets of a group.
func populate(t testing.TB, fs substrate.FS) (*substrate.Volume, before) {
	t.Helper()
	v := &substrate.Volume{FS: fs, NewID: sweep.IDs("birth")}
	ok(t, v.Init("old"))
	for _, dir := range []string{"meta", v.MetaDir(), v.MetaDir() + "/groups", v.MetaDir() + "/txns"} {
		ok(t, v.EnsureDir(dir))
	}
	now := time.Now()
	about := &partition.About{Partitions: 2, Configs: map[string]string{"retention.ms": "5000"}, Created: now.UnixMilli()}
	ok(t, partition.BuildTopicAs(v, "birth", ordersID, "orders", about, now))
	cluster := v.MetaDir() + "/cluster"
	ok(t, metalog.Ensure(v, cluster, projections.ClusterSchema(), "begun", now))
	evs, err := projections.NewEvents(
		&projections.BrokerRegistered{ID: 1, Epoch: 4, Incarnation: "a", Session: "s"},
		&projections.ShardsMade{Kind: projections.ShardGroups, Count: 16}, &projections.ShardsMade{Kind: projections.ShardTxns, Count: 16},
		&projections.ShardOwnerChanged{Kind: projections.ShardTxns, Shard: txnShard, Owner: 1, Epoch: 1},
		&projections.ProducerIDsAllocated{First: 0, Count: 1000, Broker: 1},
		&projections.TopicCreated{ID: ordersID, Name: "orders", Partitions: 2, Configs: about.Configs, CreatedAt: about.Created},
		&projections.PartitionLeaderChanged{TopicID: ordersID, Partition: 0, Leader: 1, Epoch: 1},
		&projections.PartitionLeaderChanged{TopicID: ordersID, Partition: 1, Leader: 1, Epoch: 1},
		&projections.ConfigChanged{Resource: projections.ResourceBroker, Name: "", Set: map[string]string{"log.cleaner.threads": "2"}})
	publish(t, v, cluster, projections.ClusterSchema(), evs, err)
	gs, ts := groups.Stream(v.MetaDir(), groupShard), txns.Stream(v.MetaDir(), txnShard)
	ok(t, metalog.Ensure(v, gs, groups.Schema(), "begun", now))
	ok(t, metalog.Ensure(v, ts, txns.Schema(), "begun", now))
	evs, err = groups.NewEvents(commitOf("g", 42))
	publish(t, v, gs, groups.Schema(), evs, err)
	open := txns.Txn{ID: "pay", ProducerID: oldProducer, Epoch: 3, LastEpoch: txns.NoEpoch, PrevProducerID: txns.NoProducer, NextProducerID: txns.NoProducer,
		State: txns.Ongoing, Timeout: 60_000, Version: 2, Partitions: txns.Partitions{{Topic: ordersID, Index: 0}}, Started: now.UnixMilli(), Updated: now.UnixMilli()}
	decided, idle := open, open
	decided.ID, decided.ProducerID, decided.State, decided.Epoch = "decided", 8, txns.PrepareCommit, 4
	idle.ID, idle.ProducerID, idle.State, idle.Partitions = "idle", 9, txns.CompleteCommit, nil
	evs, err = txns.NewEvents(&txns.TxnChanged{Txn: open}, &txns.TxnChanged{Txn: decided}, &txns.TxnChanged{Txn: idle})
	publish(t, v, ts, txns.Schema(), evs, err)
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 1})
	ok(t, err)
	for i := range int32(2) {
		p := lead(t, s, i, 1)
		for n := range records {
			_, err := appendTo(p, batch(-1, -1, -1, fmt.Sprint("r", n)), 0)
			ok(t, err)
		}
		if i == 0 {
			g, _ := p.StartVerification(oldProducer, 3, 0, false)
			_, err := appendTo(p, batch(oldProducer, 3, 0, "open"), g)
			ok(t, err)
			if _, hw, stable := p.Offsets(); hw != records+1 || stable != records {
				t.Fatalf("the log ends at %d, what is stable at %d", hw, stable)
			}
		}
		ok(t, p.Abandon(bg))
	}
	ok(t, s.Close(bg))
	return v, before{state(t, v, cluster, projections.ClusterSchema()), state(t, v, gs, groups.Schema()), state(t, v, ts, txns.Schema())}
}

func commitOf(group string, offset int64) *groups.OffsetsCommitted {
	return &groups.OffsetsCommitted{Group: group, Time: 1000, Topics: []groups.TopicOffsets{{Topic: ordersID,
		Partitions: []groups.PartitionOffset{{Partition: 0, Offset: offset, LeaderEpoch: -1, Expires: -1}}}}}
}

func config() partition.Config {
	return partition.Config{Log: quiet, RecoveryPointIdle: 1000 * time.Hour, StallAfter: 1000 * time.Hour, TimestampAfterMax: -1, RecoveryPointBytes: 200}
}

func lead(t testing.TB, s *substrate.Session, index, epoch int32) *partition.Partition {
	t.Helper()
	p, err := partition.Open(bg, s, ordersID, "orders", index, epoch, config())
	ok(t, err)
	return p
}

func state[S any](t testing.TB, v *substrate.Volume, stream string, sc *metalog.Schema[S]) S {
	t.Helper()
	snap, _, err := metalog.ReadState(bg, v, stream, sc)
	ok(t, err)
	return snap.State
}

func same[S any](t testing.TB, a, b S, sc *metalog.Schema[S]) bool {
	t.Helper()
	x, err := sc.Encode(a)
	ok(t, err)
	y, err := sc.Encode(b)
	ok(t, err)
	return string(x) == string(y)
}

func reopen(t testing.TB, fs substrate.FS) *substrate.Volume {
	t.Helper()
	v, err := substrate.ReadVolume(fs)
	ok(t, err)
	return v
}

// serves opens every partition of the topic as the next leader would, and finds its records.
func serves(t testing.TB, v *substrate.Volume, c *projections.Cluster, stable bool) {
	t.Helper()
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 2})
	ok(t, err)
	defer s.Close(bg)
	for i, now := range c.Topic("orders").Partitions {
		p := lead(t, s, int32(i), now.Epoch+1)
		_, hw, lso := p.Offsets()
		if hw < records || stable && lso != hw {
			t.Fatalf("partition %d ends at %d, and is stable up to %d", i, hw, lso)
		}
		got, err := p.Read(bg, 0, 1<<20, true)
		ok(t, err)
		for n := range records {
			if b := batch(-1, -1, -1, fmt.Sprint("r", n)); !contains(got.Records, b[61:]) {
				t.Fatalf("partition %d lacks record %d", i, n)
			}
		}
		ok(t, p.Relinquish(bg))
	}
}

func contains(all, part []byte) bool {
	for i := 0; i+len(part) <= len(all); i++ {
		if string(all[i:i+len(part)]) == string(part) {
			return true
		}
	}
	return false
}

// sound verifies every stream that the volume has.
func sound(t testing.TB, v *substrate.Volume, c *projections.Cluster) {
	t.Helper()
	verify(t, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
	for _, topic := range c.Topics() {
		for i := range topic.Partitions {
			verify(t, v, partition.ManifestStream(topic.ID, int32(i)), partition.ManifestSchema())
		}
	}
}

func verify[S any](t testing.TB, v *substrate.Volume, stream string, sc *metalog.Schema[S]) {
	t.Helper()
	r, err := metalog.Verify(v, stream, sc)
	ok(t, err)
	if r.Faults() > 0 {
		t.Fatalf("%s: %+v", stream, r.Findings)
	}
}

func opts() Options {
	return Options{EpochMargin: 3, Parallel: 2, NewID: sweep.IDs("volume"), Log: quiet}
}

// rolledBack checks what RolledBack has made of what was there before.
func rolledBack(t testing.TB, v *substrate.Volume, was before) {
	t.Helper()
	c := state(t, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
	sound(t, v, c)
	topic := c.Topic("orders")
	if topic == nil || len(topic.Partitions) != 2 || !maps.Equal(topic.Configs, was.cluster.Topic("orders").Configs) {
		t.Fatalf("the topic is %+v", topic)
	}
	for i, p := range topic.Partitions {
		if p.Leader != projections.NoLeader || p.Epoch < 1+3 {
			t.Errorf("partition %d is %+v", i, p)
		}
	}
	b, there := c.Broker(1)
	if !there || !b.Fenced || b.Epoch < 1<<40 || c.BrokerConfigs("")["log.cleaner.threads"] != "2" {
		t.Errorf("the broker is %+v", b)
	}
	if c.NextProducerID() < 1<<40 {
		t.Errorf("the next producer ID is %d", c.NextProducerID())
	}
	if gs := state(t, v, groups.Stream(v.MetaDir(), groupShard), groups.Schema()); !same(t, gs, was.groups, groups.Schema()) {
		t.Error("the groups are others")
	}
	ts := state(t, v, txns.Stream(v.MetaDir(), txnShard), txns.Schema())
	pay, decided, idle := ts.Txn("pay"), ts.Txn("decided"), ts.Txn("idle")
	fresh := map[int64]bool{pay.NextProducerID: true, decided.NextProducerID: true, idle.ProducerID: true}
	for id := range fresh {
		if id < 1<<40 || id >= c.NextProducerID() || len(fresh) != 3 {
			t.Errorf("the producers are %v, and %d is the next", fresh, c.NextProducerID())
		}
	}
	if pay.State != txns.PrepareAbort || pay.ProducerID != oldProducer || pay.Epoch != 4 || decided.State != txns.PrepareCommit || decided.Epoch != 4 || idle.State != txns.Empty || idle.Epoch != 0 {
		t.Errorf("the transactions are %+v, %+v, %+v", pay, decided, idle)
	}
	for _, id := range []int64{oldProducer, 8, 9} {
		if e, fenced := c.FencedEpoch(id); !fenced || e != 1<<15-1 {
			t.Errorf("producer %d is fenced at %d, %v", id, e, fenced)
		}
	}
	for _, kind := range []projections.ShardKind{projections.ShardGroups, projections.ShardTxns} {
		if len(c.Shards(kind)) != 16 {
			t.Errorf("%d shards of %s", len(c.Shards(kind)), kind)
		}
		for i, p := range c.Shards(kind) {
			if p.Leader != projections.NoLeader || p.Epoch < 1 {
				t.Errorf("shard %d of %s is %+v", i, kind, p)
			}
		}
	}
	claims(t, v, c)
	serves(t, v, c, false)
}

// claims claims every stream of the metadata as its next owner would.
func claims(t testing.TB, v *substrate.Volume, c *projections.Cluster) {
	t.Helper()
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 2})
	ok(t, err)
	defer s.Close(bg)
	_, err = s.Claim(bg, groups.Stream(v.MetaDir(), groupShard), substrate.Epoch(c.Shards(projections.ShardGroups)[groupShard].Epoch+1))
	ok(t, err)
	_, err = s.Claim(bg, txns.Stream(v.MetaDir(), txnShard), substrate.Epoch(c.Shards(projections.ShardTxns)[txnShard].Epoch+1))
	ok(t, err)
	next, err := metalog.NextEpoch(v, v.MetaDir()+"/cluster")
	ok(t, err)
	_, err = s.Claim(bg, v.MetaDir()+"/cluster", next)
	ok(t, err)
}

// rebuilt checks what Rebuild has made of the partitions.
func rebuilt(t testing.TB, v *substrate.Volume) {
	t.Helper()
	c := state(t, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
	sound(t, v, c)
	topic := c.Topic("orders")
	if topic == nil || topic.ID != ordersID || len(topic.Partitions) != 2 || topic.Configs["retention.ms"] != "5000" || topic.CreatedAt.IsZero() {
		t.Fatalf("the topic is %+v", topic)
	}
	if c.NextProducerID() < 1<<40 || c.NextBrokerEpoch() < 1<<40 {
		t.Errorf("the next producer ID is %d, the next broker epoch %d", c.NextProducerID(), c.NextBrokerEpoch())
	}
	if e, fenced := c.FencedEpoch(oldProducer); !fenced || e != 1<<15-1 {
		t.Errorf("the producer is fenced at %d, %v", e, fenced)
	}
	serves(t, v, c, true)
}
