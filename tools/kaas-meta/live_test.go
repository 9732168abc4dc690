package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/server"
)

// startBroker runs a broker in this process and returns its address.
func startBroker(t *testing.T, dir string, more ...string) string {
	t.Helper()
	cfg, err := server.LoadConfig(server.Sources{Sets: append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "http.listeners=127.0.0.1:0", "log.dirs=" + dir,
		"node.id=3", "offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=4"}, more...)})
	check(t, err)
	n, err := server.Open(context.Background(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	check(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		check(t, n.Stop(ctx))
	})
	return n.Addr()
}

// busy makes a topic, a group with offsets, a group with a member, and an open transaction.
func busy(t *testing.T, addr string) {
	t.Helper()
	ctx := context.Background()
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
		check(t, err)
		t.Cleanup(cl.Close)
		return cl
	}
	cl := client()
	adm := kadm.NewClient(cl)
	_, err := adm.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("86400000")}, "orders")
	check(t, err)
	check(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr())
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "orders", Partition: 1, At: 7, LeaderEpoch: -1, Metadata: "here"})
	check(t, adm.CommitAllOffsets(ctx, "billing", offsets))
	reader := client(kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"), kgo.ClientID("reader"), kgo.DisableAutoCommit())
	if fs := reader.PollFetches(ctx); fs.Err() != nil {
		t.Fatal(fs.Err())
	}
	txn := client(kgo.TransactionalID("payments"), kgo.TransactionTimeout(15*time.Minute), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(t, txn.BeginTransaction())
	check(t, txn.ProduceSync(ctx, &kgo.Record{Partition: 1, Value: []byte("y")}).FirstErr())
}

// read runs a command and reads its JSON.
func read[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	out, err := run(append(args, "-o", "json")...)
	check(t, err)
	check(t, json.Unmarshal([]byte(out), &v))
	return v
}

// TestLive asks a broker, and finds what is on its volume.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	addr := startBroker(t, dir)
	busy(t, addr)

	groups := read[[]groupState](t, "groups", "--bootstrap-server", addr)
	if len(groups) != 2 || groups[0].ID != "billing" || groups[1].ID != "readers" || *groups[0].Coordinator != 3 {
		t.Fatalf("groups are %+v", groups)
	}
	if o := groups[0].Offsets; len(o) != 1 || o[0].Offset != 7 || o[0].Metadata != "here" || o[0].Committed != nil {
		t.Errorf("offsets are %+v", o)
	}
	if g := groups[1]; g.State != "Stable" || len(g.Members) != 1 || g.Members[0].ClientID != "reader" || !slices.Equal(g.Members[0].Assigned["orders"], []int32{0, 1}) {
		t.Errorf("readers are %+v", g)
	}
	one, onVolume := read[groupState](t, "groups", "billing", "--bootstrap-server", addr), read[groupState](t, "--dir", dir, "groups", "billing")
	if one.Protocol != onVolume.Protocol || one.State != onVolume.State || one.Offsets[0].Offset != onVolume.Offsets[0].Offset || onVolume.Shard == nil || one.Shard != nil {
		t.Errorf("one group is %+v, on the volume %+v", one, onVolume)
	}

	txns := read[[]txnState](t, "txns", "--bootstrap-server", addr)
	txn := read[txnState](t, "--dir", dir, "txns", "payments")
	if len(txns) != 1 || txns[0].ID != "payments" || txns[0].State != txn.State || txn.State != "Ongoing" || txns[0].ProducerID != txn.ProducerID ||
		txns[0].Epoch != txn.Epoch || !txns[0].Started.Equal(*txn.Started) || !slices.Equal(txns[0].Partitions["orders"], []int32{1}) {
		t.Errorf("transactions are %+v, on the volume %+v", txns, txn)
	}

	type dump struct{ State clusterState }
	c, d := read[dump](t, "dump", "--bootstrap-server", addr).State, read[dump](t, "--dir", dir, "dump").State
	if c.ClusterID != d.ClusterID || c.Controller != 3 || len(c.Brokers) != 1 || c.Brokers[0].ID != 3 || c.Brokers[0].Fenced ||
		len(c.Topics) != 1 || c.Topics[0].ID != d.Topics[0].ID || !slices.Equal(c.Topics[0].Partitions, d.Topics[0].Partitions) || c.Topics[0].Configs["retention.ms"] != "86400000" {
		t.Errorf("the cluster is %+v, on the volume %+v", c, d)
	}
	for _, x := range []struct {
		args string
		want []string
	}{
		{"groups", []string{"billing - none Empty 0 1 0 -\n", "readers - classic Stable 1 0 0 -\n"}},
		{"groups billing", []string{"group billing as broker 3 tells, which coordinates it: ", "orders 1 7 -1 - - here\n"}},
		{"txns payments", []string{"transactional ID payments as broker 3 tells, which coordinates it: Ongoing, producer", "orders:1 -\n"}},
		{"dump -o table", []string{"topic orders id " + c.Topics[0].ID + ", partitions 2\n", "config topic orders retention.ms 86400000\n", "partition orders/1 leader 3, leader_epoch 1\n", "broker 3 fenced false, listener 127.0.0.1:"}},
	} {
		out, err := run(append(strings.Fields(x.args), "--bootstrap-server", addr)...)
		check(t, err)
		has(t, out, x.want...)
	}
	for args, want := range map[string]string{
		"groups none": `there is no group "none"`, "txns none": `there is no transactional ID "none"`, "groups --at 1h": "--at needs --dir",
		"dump --stream groups/01": "--stream needs --dir", "dump --dir x": "do not go together",
	} {
		if _, err := run(append(strings.Fields(args), "--bootstrap-server", addr)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestLiveConsumerGroup: a group of the next-generation protocol tells its epochs.
func TestLiveConsumerGroup(t *testing.T) {
	dir := t.TempDir()
	addr := startBroker(t, dir)
	busy(t, addr)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup("new"), kgo.ConsumeTopics("orders"), kgo.ServerSideBalancer())
	check(t, err)
	defer cl.Close()
	if fs := cl.PollFetches(context.Background()); fs.Err() != nil {
		t.Fatal(fs.Err())
	}
	// The member tells only with a later heartbeat that it has what it was given.
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		g, v := read[groupState](t, "groups", "new", "--bootstrap-server", addr), read[groupState](t, "--dir", dir, "groups", "new")
		if g.Protocol == "consumer" && *g.Epoch == *v.Epoch && *g.TargetEpoch == *v.TargetEpoch && g.State == "Stable" &&
			slices.Equal(g.Members[0].Assigned["orders"], []int32{0, 1}) && *g.Members[0].Epoch == *v.Members[0].Epoch {
			break
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("it is %+v, on the volume %+v", g, v)
		}
	}
}
