package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/nfslab/lab"
)

const topic = "moved"

func client(t *testing.T, l *lab.Lab, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr), kgo.AlwaysRetryEOF(), kgo.Dialer(l.DialContext))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// TestBrokerMovesHost: a broker is killed with -9 while it is written to, and started
// again on another host with the same node.id. Every record that it had acknowledged
// is there.
func TestBrokerMovesHost(t *testing.T) {
	l, _ := hosts(t)
	ctx, cancel := context.WithTimeout(t.Context(), allow(90*time.Second))
	defer cancel()
	bin, err := l.BuildBroker(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.StartBroker(ctx, 1, bin)
	if err != nil {
		t.Fatal(err)
	}
	cl := client(t, l, b.Addr)
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(60_000)
	if _, err := adm.CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	acked := produceUntilKilled(ctx, t, cl, b)

	began := time.Now()
	b, err = l.StartBroker(ctx, 2, bin, "--set", "node.id=1")
	if err != nil {
		t.Fatal(err)
	}
	found := consume(ctx, t, l, b.Addr, acked)
	t.Logf("%d records were acknowledged and all are there; it answered from the other host and was read %v after its start",
		len(acked), time.Since(began).Round(10*time.Millisecond))
	if len(found) < len(acked) {
		t.Errorf("%d records acknowledged, %d read", len(acked), len(found))
	}
	if err := b.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// produceUntilKilled returns the records that were acknowledged, by their offset.
func produceUntilKilled(ctx context.Context, t *testing.T, cl *kgo.Client, b *lab.Broker) map[int64]string {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	acked, enough := map[int64]string{}, make(chan struct{})
	const kill = 500
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			cl.Produce(ctx, &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "record %d", i)}, func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					return
				}
				if acked[r.Offset] = string(r.Value); len(acked) == kill {
					close(enough)
				}
			})
			if i%50 == 0 {
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}
	}()
	select {
	case <-enough:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	if err := b.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	cl.Close() // its callbacks have run
	mu.Lock()
	defer mu.Unlock()
	return acked
}

// consume reads until it has met every offset that was acknowledged.
func consume(ctx context.Context, t *testing.T, l *lab.Lab, addr string, acked map[int64]string) map[int64]string {
	t.Helper()
	cl := client(t, l, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	found := map[int64]string{}
	for int64(len(found)) < end.Offset {
		fs := cl.PollFetches(ctx)
		if err := errors.Join(fs.Err0(), ctx.Err()); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { found[r.Offset] = string(r.Value) })
	}
	for off, want := range acked {
		if found[off] != want {
			t.Errorf("offset %d has %q, acknowledged was %q", off, found[off], want)
		}
	}
	return found
}
