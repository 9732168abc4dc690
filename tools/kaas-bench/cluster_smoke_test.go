package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestFailoverOfOne has a broker that is alone killed under the load, and take up its
// partitions again.
func TestFailoverOfOne(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a broker")
	}
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) }) // after the broker has been stopped
	run := startOne(t)
	r := &failoverResult{}
	if err := run.begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if r.Calm.RecordsPerSecond <= 0 || r.Calm.Ack == nil {
		t.Errorf("in peace it did %+v", r.Calm)
	}
	n := run.fleet.nodes[0]
	run.load.pulses.mark(time.Now())
	if _, err := n.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.running.await(time.Minute)
	if err := run.fleet.startNode(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := run.awaitBack(t.Context(), run.load.pulses); err != nil {
		t.Fatal(err)
	}
	if missing := run.load.pulses.missing(); missing > 0 {
		t.Errorf("%d partitions did not come back", missing)
	}
	if s, err := run.layout.settle(t.Context(), run.fleet); err != nil || len(s.led(n.id)) != len(run.layout.places) {
		t.Errorf("after its return it is not settled: %v", err)
	}
	if got := run.load.stop(); got.Acked == 0 || got.Failed > 0 || got.Unknown > 0 {
		t.Errorf("the records ended as %+v", got)
	}
}

func startOne(t *testing.T) *failoverRun {
	t.Helper()
	s, err := newScratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k, err := buildKaas(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFleet(t.Context(), &kaasCluster{kaas: k, sets: []string{"log.level=warn"}}, s, "data", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(f.close(), s.remove("")); err != nil {
			t.Error(err)
		}
	})
	p := failoverPlan{keeping: keeping{Producers: 2, Every: 20 * time.Millisecond, Size: 100},
		Partitions: 12, Topics: 2, Brokers: 1, Calm: 2 * time.Second, Most: 3 * time.Minute}
	return &failoverRun{failoverPlan: p, fleet: f, layout: newLayout(p.Partitions, p.Topics), log: io.Discard}
}

// TestManyOnOne runs the whole command with few partitions.
func TestManyOnOne(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a broker")
	}
	var out bytes.Buffer
	cmd := rootCommand(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"many", "--partitions", "20", "--topics", "2", "--brokers", "1", "--changes", "3", "--dir", t.TempDir(), "-o", "json"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got struct{ Result manyResult }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if r := got.Result; len(r.Nodes) != 1 || r.Nodes[0].Leaders != 20 || r.Nodes[0].RSS == 0 || r.Served <= 0 || r.Made == nil || r.Made.Count != 3 {
		t.Errorf("the command told %+v", r)
	}
}

// Brokers make so many partitions by one request, which is one for each topic.
func TestManyOfOneTopic(t *testing.T) {
	cmd := rootCommand(io.Discard)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"many", "--partitions", "10000", "--topics", "1", "--dir", t.TempDir()})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "9999 partitions at most") {
		t.Errorf("10,000 partitions of a topic: %v", err)
	}
}

// TestFailover runs a whole small benchmark where it is asked for: it takes minutes.
func TestFailover(t *testing.T) {
	if os.Getenv("KAAS_E2E") == "" {
		t.Skip("starts three brokers of Kafka: set KAAS_E2E=1 to run it")
	}
	var out bytes.Buffer
	cmd := rootCommand(&out)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{"failover", "--servers", "kafka", "--partitions", "30", "--topics", "3", "--producers", "2", "--rounds", "1", "--warmup", "1s", "--calm", "1s", "--dir", t.TempDir(), "-o", "json"})
	err := cmd.ExecuteContext(t.Context())
	if errors.Is(err, errNoKafka) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Clusters []failoverResult }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Clusters) != 1 || len(got.Clusters[0].Faults) != len(faultKinds) {
		t.Fatalf("%v of %+v", err, got)
	}
	for _, f := range got.Clusters[0].Faults {
		if f.Led == 0 || f.Missing > 0 || f.Back == nil || f.Return == nil {
			t.Errorf("a fault is %+v", f)
		}
	}
}
