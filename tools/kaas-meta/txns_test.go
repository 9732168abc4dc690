package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// newTxnsVolume adds 16 shards of transactional IDs to newVolume, of which two have been
// owned: that of payments, which is being committed, and that of an ID in two lines.
func newTxnsVolume(t *testing.T) string {
	t.Helper()
	dir := newVolume(t)
	publisher(t, dir, "cluster", 3, projections.ClusterSchema(), func(publish func(string, []metalog.Event, error)) {
		evs, err := projections.NewEvents(&projections.ShardsMade{Kind: projections.ShardTxns, Count: 16})
		publish("shards", evs, err)
	})
	open := txns.Txn{ID: "payments", ProducerID: 77, Epoch: 3, LastEpoch: txns.NoEpoch, PrevProducerID: 76, NextProducerID: txns.NoProducer, State: txns.Ongoing,
		Timeout: 60_000, Partitions: txns.Partitions{{Topic: ordersID, Index: 0}, {Topic: ordersID, Index: 1}, {Topic: ordersID, Index: 2}, {Topic: unknownID, Index: 4}},
		Groups: []int32{5}, Started: 1_700_000_000_000, Updated: 1_700_000_000_000}
	publisher(t, dir, "txns/"+txnShardName["payments"], 1, txns.Schema(), func(publish func(string, []metalog.Event, error)) {
		evs, err := txns.NewEvents(&txns.TxnChanged{Txn: open})
		publish("parts of a transaction", evs, err)
		ending := open
		ending.State, ending.Epoch, ending.LastEpoch, ending.PrevProducerID, ending.Version, ending.Updated = txns.PrepareCommit, 4, 3, txns.NoProducer, 2, 1_700_000_001_000
		evs, err = txns.NewEvents(&txns.TxnChanged{Txn: ending})
		publish("end of a transaction", evs, err)
	})
	publisher(t, dir, "txns/"+txnShardName["two\nlines"], 1, txns.Schema(), func(publish func(string, []metalog.Event, error)) {
		evs, err := txns.NewEvents(&txns.TxnChanged{Txn: txns.Txn{ID: "two\nlines", ProducerID: 9, LastEpoch: txns.NoEpoch, PrevProducerID: txns.NoProducer,
			NextProducerID: txns.NoProducer, Timeout: 1500, Started: txns.NotStarted, Updated: 1_700_000_000_000}})
		publish("producer of a transactional ID", evs, err)
	})
	return dir
}

// txnShardName is the shard that newTxnsVolume's IDs fall into, by Kafka's rule.
var txnShardName = map[string]string{"payments": "13", "two\nlines": "01"}

func TestTxns(t *testing.T) {
	dir := newTxnsVolume(t)
	out, err := run("--dir", dir, "txns")
	check(t, err)
	has(t, out, "payments 13 77 4 PrepareCommit 4 1 2023-11-14T22:13:20Z 2023-11-14T22:13:21Z\n", `"two\nlines" 01 9 0 Empty 0 0 - 2023-11-14T22:13:20Z`)
	out, err = run("--dir", dir, "txns", "-o", "json")
	check(t, err)
	var all []txnState
	check(t, json.Unmarshal([]byte(out), &all))
	if len(all) != 2 || all[0].ID != "payments" || all[0].Partitions["orders"][2] != 2 || *all[0].LastEpoch != 3 || all[0].Groups[0] != "groups/05" || all[1].Started != nil {
		t.Errorf("JSON is %s", out)
	}
}

func TestOneTxn(t *testing.T) {
	dir := newTxnsVolume(t)
	out, err := run("--dir", dir, "txns", "payments")
	check(t, err)
	has(t, out, "transactional ID payments at 1-3 of txns/13: PrepareCommit, producer 77 in epoch 4, before that in epoch 3, timeout 1m0s, started 2023-11-14T22:13:20Z, updated 2023-11-14T22:13:21Z\n",
		unknownID.String()+":4 orders:0-2 groups/05\n")
	out, err = run("--dir", dir, "txns", "two\nlines")
	check(t, err)
	has(t, out, `transactional ID "two\nlines" at 1-2 of txns/01: Empty, producer 9 in epoch 0, timeout 1.5s, updated`)
	out, err = run("--dir", dir, "txns", "payments", "--at", "1-1", "-o", "json")
	check(t, err)
	var s txnState
	check(t, json.Unmarshal([]byte(out), &s))
	if s.Position != "1-1" || s.State != "Ongoing" || s.Epoch != 3 || *s.Previous != 76 || s.LastEpoch != nil {
		t.Errorf("at 1-1 it is %s", out)
	}
}

func TestTxnsStreams(t *testing.T) {
	dir := newTxnsVolume(t)
	out, err := run("--dir", dir, "log", "--stream", "txns/13")
	check(t, err)
	has(t, out, "0-1 ", `1-2 2026-11-29T12:00:00.000Z node 7 "end of a transaction"`, "payments")
	out, err = run("--dir", dir, "dump", "--stream", "txns/13")
	check(t, err)
	has(t, out, "stream: txns/13", "id: payments", "state: PrepareCommit", "- groups/05")
	out, err = run("--dir", dir, "dump", "--stream", "txns/00")
	check(t, err)
	has(t, out, "transactional_ids: []")
	out, err = run("--dir", dir, "verify")
	check(t, err)
	has(t, out, " 5 streams,", "sound")
}

func TestTxnsRefusals(t *testing.T) {
	dir := newTxnsVolume(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"txns", "nobody"}, `no transactional ID "nobody"`},
		{[]string{"txns", "payments", "--at", "0-1"}, `no transactional ID "payments" at 0-1 of txns/13`},
		{[]string{"txns", "--at", "1-1"}, "name the transactional ID"},
		{[]string{"txns", "payments", "--at", "x"}, `"x" is not a position`},
		{[]string{"log", "--stream", "txns/5"}, "two digits"},
		{[]string{"log", "--stream", "txns/16"}, "there are 16 shards of transactional IDs"},
		{[]string{"dump", "--stream", "txns/00", "--at", "1-1"}, "nobody has owned it yet"},
	} {
		_, err := run(append([]string{"--dir", dir}, c.args...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
	if _, err := run("--dir", newVolume(t), "txns", "payments"); err == nil || !strings.Contains(err.Error(), "no broker has made the shards") {
		t.Errorf("without shards: %v", err)
	}
	if out, err := run("--dir", newVolume(t), "txns", "-o", "json"); err != nil || strings.TrimSpace(out) != "[]" {
		t.Errorf("without shards: %s, %v", out, err)
	}
}

// A damaged shard does not hide the others, and is an error.
func TestDamagedTxnShard(t *testing.T) {
	dir := newTxnsVolume(t)
	files, err := filepath.Glob(filepath.Join(dir, "meta/*/txns/13/*/*.snap"))
	check(t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		check(t, err)
		b[len(b)-1] ^= 1
		check(t, os.WriteFile(f, b, 0o644))
	}
	out, err := run("--dir", dir, "txns")
	if err == nil || !strings.Contains(err.Error(), "txns/13") || !strings.Contains(out, `two\nlines`) {
		t.Errorf("%v:\n%s", err, out)
	}
	if out, err := run("--dir", dir, "verify"); !errors.Is(err, errFaults) || !strings.Contains(out, "txns/13") {
		t.Errorf("verify: %v\n%s", err, out)
	}
}
