package partition

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// BenchmarkAppendDurable appends batches of one record of 1 KiB, each producer waiting
// for its answer before it sends the next.
func BenchmarkAppendDurable(b *testing.B) {
	for _, producers := range []int{1, 16} {
		b.Run(fmt.Sprintf("producers=%d", producers), func(b *testing.B) {
			p := open(b, newSession(b, dirVolume(b)), 1, testConfig())
			msg := rec(0, strings.Repeat("x", 1024))
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			b.ResetTimer()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range producers {
				buf := bytes.Clone(msg)
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						a, err := p.Append(context.Background(), buf)
						if err == nil {
							err = a.Wait(context.Background())
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			ok(b, p.Relinquish(context.Background()))
		})
	}
}

// BenchmarkFetchSequential reads a log of 256 MiB from its start, 1 MiB a fetch.
func BenchmarkFetchSequential(b *testing.B) {
	cfg := testConfig()
	cfg.FlushMessages, cfg.SegmentBytes = 1<<40, 64<<20
	p := open(b, newSession(b, dirVolume(b)), 1, cfg)
	msg := rec(0, strings.Repeat("x", 1024), strings.Repeat("y", 1024), strings.Repeat("z", 1024))
	var last *Appended
	for n := 0; n < 256<<20; n += len(msg) {
		a, err := p.Append(context.Background(), bytes.Clone(msg))
		ok(b, err)
		last = a
	}
	ok(b, last.Wait(context.Background()))
	b.ReportAllocs()
	b.ResetTimer()
	var offset, total int64
	for range b.N {
		f, err := p.Read(context.Background(), offset, 1<<20, true)
		ok(b, err)
		total += int64(len(f.Records))
		if offset = lastOffset(f.Records) + 1; offset >= f.HighWatermark {
			offset = 0
		}
	}
	b.SetBytes(total / int64(b.N))
	b.StopTimer()
	ok(b, p.Relinquish(context.Background()))
}

func lastOffset(recs []byte) int64 {
	last := int64(-1)
	for len(recs) > 0 {
		last = batch(recs).next() - 1
		recs = recs[batch(recs).size():]
	}
	return last
}
