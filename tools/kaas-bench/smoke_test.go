package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestLoads builds a broker and gives it each load for a moment.
func TestLoads(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a broker")
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s, err := newScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove("")
	k, err := buildKaas(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	c, err := k.start(t.Context(), s, "data", pageCache)
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	t.Logf("it answered after %v", c.answer)

	srv := &server{with: k, child: c}
	tgt := srv.target("smoke", pageCache, 3)
	if err := tgt.ensureTopic(t.Context()); err != nil {
		t.Fatal(err)
	}
	const n = 5000
	p := cell{Size: 100, Clients: 2}.produce(tgt, plan{})
	p.Records = n
	r, err := p.run(t.Context())
	wantFigures(t, "produce", r, err, n)
	if r.Latency == nil || r.Server == nil || r.Server.PeakRSS == 0 {
		t.Errorf("produce has latency %v and costs %+v", r.Latency, r.Server)
	}

	r, err = (&consumeLoad{target: tgt, Consumers: 2}).run(t.Context())
	wantFigures(t, "consume", r, err, n)

	// How many come in a second is the machine's affair, and a slow one gets longer.
	for d := time.Second; ; d *= 2 {
		e := &e2eLoad{produceLoad: *cell{Size: 100, Clients: 2, Rate: 500}.produce(tgt, plan{Cell: d}), Consumers: 2}
		if r, err = e.run(t.Context()); err != nil || r.Records > 0 || d > 30*time.Second {
			break
		}
	}
	wantFigures(t, "e2e", r, err, 1)
	if r.Latency == nil || r.AckLatency == nil {
		t.Errorf("e2e has latencies %+v and %+v", r.Latency, r.AckLatency)
	}
	r, err = (&txnLoad{target: tgt, Size: 100, Producers: 2, Records: 5, Transactions: 40}).run(t.Context())
	wantFigures(t, "transactions", r, err, 40)
	if r.Latency == nil || r.RequestLatency == nil || r.Bytes != 40*5*100 {
		t.Errorf("transactions have latencies %+v and %+v, %d bytes", r.Latency, r.RequestLatency, r.Bytes)
	}
	if err := tgt.deleteTopic(t.Context()); err != nil {
		t.Error(err)
	}

	var out bytes.Buffer
	cmd := rootCommand(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"produce", "--bootstrap", c.addr, "--topic", "command", "--records", "10", "--acks", "1", "--compression", "zstd", "--delete", "-o", "json"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got result
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Records != 10 {
		t.Errorf("the command told %d records, %v:\n%s", got.Records, err, out.Bytes())
	}
}

func wantFigures(t *testing.T, load string, r *result, err error, least int64) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", load, err)
	}
	if r.Records < least || r.MBPerSecond <= 0 {
		t.Fatalf("%s: %d records, %v MB/s; want %d records", load, r.Records, r.MBPerSecond, least)
	}
	if err := r.table(io.Discard); err != nil {
		t.Errorf("%s: %v", load, err)
	}
}

// TestCompare runs a whole small comparison where it is asked for: it takes a minute.
func TestCompare(t *testing.T) {
	if os.Getenv("KAAS_E2E") == "" {
		t.Skip("starts Kafka: set KAAS_E2E=1 to run it")
	}
	o := compareOptions{
		plan: plan{Modes: []mode{durable}, Sizes: []byteSize{100}, Partitions: []int32{2}, Producers: []int{2}, Rounds: 1, Cell: time.Second},
		dir:  t.TempDir(), version: "4.4.0", output: "json",
	}
	var out bytes.Buffer
	err := o.run(t.Context(), &out, io.Discard)
	if errors.Is(err, errNoKafka) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Measurements []measurement }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Measurements) != 4 {
		t.Errorf("%d measurements, %v; want 4:\n%s", len(got.Measurements), err, out.Bytes())
	}
}
