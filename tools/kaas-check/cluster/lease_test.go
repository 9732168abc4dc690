package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/child"
)

func byLease(t *testing.T) *ByLease {
	t.Helper()
	if os.Getenv("KAAS_K8S") == "" {
		t.Skip("KAAS_K8S is not set: starts the API server of a Kubernetes")
	}
	dir := t.TempDir()
	d, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "kaas")
	if err := child.Build(t.Context(), bin); err != nil {
		t.Fatal(err)
	}
	died := func(node int32, state string) { t.Errorf("broker %d ended: %s", node, state) }
	b, err := NewByLease(t.Context(), Config{Brokers: 3, Binary: bin, Dir: d, Died: died}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func controller(t *testing.T, cl *kgo.Client) int32 {
	t.Helper()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	return resp.ControllerID
}

func client(t *testing.T, b *ByLease, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(b.Addrs()...), kgo.AlwaysRetryEOF(), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// K-01: a hundred producers saturate brokers that have a fifth of a processor each: they stand
// still for 80 of each 100 ms. The Lease stays where it is, and so do all leaders.
func TestControllerStaysThroughHeavyProduce(t *testing.T) {
	b := byLease(t)
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	admin := client(t, b)
	adm := kadm.NewClient(admin)
	adm.SetTimeoutMillis(60_000)
	if _, err := adm.CreateTopic(t.Context(), 12, -1, nil, "heavy"); err != nil {
		t.Fatal(err)
	}
	was, leaders := controller(t, admin), leadersOf(t, admin)
	if err := b.server.AwaitRenewal(t.Context(), LeaseName); err != nil {
		t.Fatal(err)
	}
	holder, before, err := b.server.Lease(t.Context(), LeaseName)
	if err != nil || holder != strconv.Itoa(int(was)) {
		t.Fatalf("broker %d is controller, %s holds the Lease, %v", was, holder, err)
	}
	length := time.Minute
	if testing.Short() {
		length = 15 * time.Second
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var wg sync.WaitGroup
	var acked atomic.Int64
	for range 10 {
		cl := client(t, b)
		for range 10 {
			wg.Go(func() {
				for r := (&kgo.Record{Topic: "heavy", Value: make([]byte, 4<<10)}); ctx.Err() == nil; {
					if cl.ProduceSync(ctx, &kgo.Record{Topic: r.Topic, Value: r.Value}).FirstErr() == nil {
						acked.Add(1)
					}
				}
			})
		}
	}
	for _, n := range b.Nodes() {
		wg.Go(func() { throttle(ctx, t, b, n) })
	}
	wg.Wait()
	t.Logf("%d records acknowledged in %v", acked.Load(), length)
	holder, after, err := b.server.Lease(t.Context(), LeaseName)
	if err != nil || holder != strconv.Itoa(int(was)) || after != before {
		t.Errorf("%s holds the Lease, %d transitions after %d, %v; broker %d was controller", holder, after, before, err, was)
	}
	if now := controller(t, admin); now != was {
		t.Errorf("broker %d is controller, %d was", now, was)
	}
	if now := leadersOf(t, admin); now != leaders {
		t.Errorf("leaders %v, were %v", now, leaders)
	}
	if acked.Load() == 0 {
		t.Error("nothing was acknowledged")
	}
}

// throttle has a broker stand still for four fifths of the time.
func throttle(ctx context.Context, t *testing.T, b *ByLease, node int32) {
	sleep := func(d time.Duration) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		<-timer.C
	}
	for ctx.Err() == nil {
		if err := b.Pause(node); err != nil {
			t.Error(err)
			return
		}
		sleep(80 * time.Millisecond)
		if err := b.Resume(node); err != nil {
			t.Error(err)
			return
		}
		sleep(20 * time.Millisecond)
	}
}

// leadersOf are the leaders of the partitions, with their epochs.
func leadersOf(t *testing.T, cl *kgo.Client) (out [12][2]int32) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr("heavy")
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range resp.Topics[0].Partitions {
		out[p.Partition] = [2]int32{p.Leader, p.LeaderEpoch}
	}
	return out
}
