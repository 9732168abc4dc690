package server

import (
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The work for a batch does not depend on how many records are in it.
func TestNoAllocationPerRecord(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	cost := func(topic string, records int) (produce, fetch int64) {
		c.create(topic, 1)
		values := make([]string, records)
		batch := newBatch(nil, values...)
		const rounds = 20
		request := frame(produceReq(-1, topic, batch), 1)
		var before, middle, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			if _, err := c.nc.Write(request); err != nil {
				t.Fatal(err)
			}
			c.receive()
		}
		runtime.ReadMemStats(&middle)
		for range rounds {
			if _, err := c.nc.Write(frame(fetchReq(topic, 0, 0), 1)); err != nil {
				t.Fatal(err)
			}
			c.receive()
		}
		runtime.ReadMemStats(&after)
		return int64(middle.Mallocs-before.Mallocs) / rounds, int64(after.Mallocs-middle.Mallocs) / rounds
	}
	cost("warm", 1)
	p1, f1 := cost("one", 1)
	p2, f2 := cost("many", 5000)
	t.Logf("allocations, client included: produce %d for 1 record, %d for 5,000; fetch %d and %d", p1, p2, f1, f2)
	if p2 > p1+100 || f2 > f1+100 {
		t.Errorf("allocations grow with records: produce %d to %d, fetch %d to %d", p1, p2, f1, f2)
	}
}

func BenchmarkProduceDurable(b *testing.B) {
	n := startNode(b, b.TempDir())
	c := dial(b, n.Addr())
	c.create("t", 1)
	request := frame(produceReq(-1, "t", newBatch(nil, string(make([]byte, 16<<10)))), 1)
	b.SetBytes(int64(len(request)))
	b.ReportAllocs()
	b.ResetTimer()
	const flight = 5
	sent, got := 0, 0
	for got < b.N {
		for ; sent < b.N && sent-got < flight; sent++ {
			if _, err := c.nc.Write(request); err != nil {
				b.Fatal(err)
			}
		}
		c.receive()
		got++
	}
}

func BenchmarkFetchSequential(b *testing.B) {
	n := startNode(b, b.TempDir())
	c := dial(b, n.Addr())
	c.create("t", 1)
	for range 64 {
		c.produce("t", newBatch(nil, string(make([]byte, 1_000_000))))
	}
	req := fetchReq("t", 0, 0)
	req.Topics[0].Partitions[0].PartitionMaxBytes = 8 << 20
	size := 0
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		req.Topics[0].Partitions[0].FetchOffset = int64(i*8) % 64
		if _, err := c.nc.Write(frame(req, 1)); err != nil {
			b.Fatal(err)
		}
		_, body := c.receive()
		size = len(body)
	}
	b.SetBytes(int64(size))
}

func BenchmarkMetadata(b *testing.B) {
	n := startNode(b, b.TempDir())
	c := dial(b, n.Addr())
	c.create("t", 10)
	req := frame(kmsg.NewPtrMetadataRequest(), 1)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if _, err := c.nc.Write(req); err != nil {
			b.Fatal(err)
		}
		c.receive()
	}
}
