package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/testport"
)

func kgoClient(t testing.TB, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// consumeAll reads a topic's only partition from its start to end.
func consumeAll(t testing.TB, addr, topic string, end int64) (values [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := kgoClient(t, addr, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	for int64(len(values)) < end {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(values), end, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(len(values)) {
				t.Fatalf("offset %d where %d was due", r.Offset, len(values))
			}
			values = append(values, r.Value)
		})
	}
	return values
}

// What an idempotent producer sends is what a consumer gets, byte for byte, over
// every codec and several partitions' worth of batches in flight.
func TestKgoRoundTrip(t *testing.T) {
	n := startNode(t, t.TempDir())
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			cl := kgoClient(t, n.Addr(), kgo.DefaultProduceTopic(name), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0))
			var want [][]byte
			for i := range 3000 {
				want = append(want, bytes.Repeat([]byte{byte(i), byte(i >> 8), 0, 0xff}, i%100))
			}
			var wg sync.WaitGroup
			for _, v := range want {
				wg.Add(1)
				cl.Produce(context.Background(), &kgo.Record{Value: v}, func(_ *kgo.Record, err error) {
					defer wg.Done()
					if err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for i, got := range consumeAll(t, n.Addr(), name, int64(len(want))) {
				if !bytes.Equal(got, want[i]) {
					t.Fatalf("record %d: %d bytes, %d were sent", i, len(got), len(want[i]))
				}
			}
		})
	}
}

// Killed in the middle of producing and started again: every acknowledged line is
// there, in order, and no line stands twice.
func TestKillWhileProducing(t *testing.T) {
	dir := t.TempDir()
	addr := testport.Addr(t)
	p := spawn(t, dir, addr)
	p.awaitServing()
	cl := kgoClient(t, addr, kgo.DefaultProduceTopic("lines"), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(500),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	var mu sync.Mutex
	acked := map[int]bool{}
	var wg sync.WaitGroup
	const lines = 20_000
	for i := range lines {
		wg.Add(1)
		cl.Produce(context.Background(), &kgo.Record{Value: fmt.Appendf(nil, "%d", i)}, func(_ *kgo.Record, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				acked[i] = true
			} else if !errors.Is(err, kgo.ErrAborting) {
				t.Logf("line %d: %v", i, err)
			}
		})
		if i == lines/3 || i == 2*lines/3 {
			p.signal(syscall.SIGKILL)
			<-p.done
			p = spawn(t, dir, addr)
		}
	}
	wg.Wait()
	raw := dial(t, addr)
	end := raw.end("lines")
	first := map[int]int{}
	for pos, v := range consumeAll(t, addr, "lines", end) {
		var line int
		if _, err := fmt.Sscanf(string(v), "%d", &line); err != nil {
			t.Fatalf("record %d is %q", pos, v)
		}
		if before, ok := first[line]; ok {
			t.Fatalf("line %d stands at %d and again at %d", line, before, pos)
		}
		first[line] = pos
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d of %d lines acknowledged over two kills, %d records", len(acked), lines, end)
	last := -1
	for i := range lines {
		pos, ok := first[i]
		if acked[i] && !ok {
			t.Fatalf("line %d was acknowledged and is lost", i)
		}
		if acked[i] && pos < last {
			t.Fatalf("line %d stands before a line sent earlier", i)
		}
		if acked[i] {
			last = pos
		}
	}
	if len(acked) < lines/2 {
		t.Errorf("only %d lines were acknowledged", len(acked))
	}
}
