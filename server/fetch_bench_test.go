package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas.dev/kaas/internal/testport"
)

// cpuSeconds is what a process has used, user and system.
func cpuSeconds(t testing.TB, pid int) float64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip(err)
	}
	fs := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var sum float64
	for _, f := range fs[11:13] {
		n, _ := strconv.ParseFloat(f, 64)
		sum += n / 100 // clock ticks
	}
	return sum
}

// BenchmarkFetch reads a log of 256 MiB over loopback from a broker in a process of its
// own, from the page cache: 1 MiB a fetch, one request after another, and small ones.
func BenchmarkFetch(b *testing.B) {
	p := spawn(b, b.TempDir(), testport.Addr(b), "log.flush.interval.messages=1000000000")
	p.awaitServing()
	c := dial(b, p.addr)
	_ = c.nc.SetDeadline(time.Time{})
	c.create("t", 1)
	const batches, values = 256 << 4, 64 // of 64 KiB
	value := strings.Repeat("x", 1013)
	vs := make([]string, values)
	for i := range vs {
		vs[i] = value
	}
	batch := newBatch(nil, vs...)
	req := frame(produceReq(1, "t", batch), 1)
	for sent := 0; sent < batches; sent += 16 {
		for range 16 {
			if _, err := c.nc.Write(req); err != nil {
				b.Fatal(err)
			}
		}
		for range 16 {
			c.receive()
		}
	}
	for _, tc := range []struct {
		size  int32
		conns int
	}{{1 << 20, 1}, {1 << 20, 4}, {70_000, 1}} {
		b.Run(fmt.Sprintf("bytes=%d/consumers=%d", tc.size, tc.conns), func(b *testing.B) {
			before := cpuSeconds(b, p.cmd.Process.Pid)
			var left, total atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for i := range tc.conns {
				c := dial(b, p.addr)
				_ = c.nc.SetDeadline(time.Time{})
				offset := int64(i * batches / tc.conns * values)
				wg.Go(func() {
					buf := make([]byte, 2<<20)
					req := fetchReq("t", 0, 0)
					req.Topics[0].Partitions[0].PartitionMaxBytes = tc.size
					for left.Add(-1) >= 0 {
						req.Topics[0].Partitions[0].FetchOffset = offset
						n, err := c.exchange(frame(req, 1), buf)
						if err != nil {
							b.Error(err)
							return
						}
						total.Add(int64(n))
						offset = (offset + int64(n/len(batch))*values) % (batches * values)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.SetBytes(total.Load() / int64(b.N))
			b.ReportMetric((cpuSeconds(b, p.cmd.Process.Pid)-before)/(float64(total.Load())/1e9), "cpu-s/GB")
		})
	}
}

// exchange sends a request and reads its answer into buf, without a look at it.
func (c *client) exchange(req, buf []byte) (n int, err error) {
	if _, err = c.nc.Write(req); err != nil {
		return 0, err
	}
	if _, err = io.ReadFull(c.nc, buf[:4]); err != nil {
		return 0, err
	}
	n = int(binary.BigEndian.Uint32(buf))
	_, err = io.ReadFull(c.nc, buf[:n])
	return n, err
}
