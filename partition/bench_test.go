package partition

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// BenchmarkAppendBesideOldReaders appends durably, one after another, alone and while
// readers go through a log of 256 MiB from its start, 1 MiB every 40 ms each; p99 is of the appends.
func BenchmarkAppendBesideOldReaders(b *testing.B) {
	for _, readers := range []int{0, 8} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			cfg := testConfig()
			cfg.SegmentBytes = 16 << 20 // more segments than are kept open
			p := open(b, newSession(b, dirVolume(b)), 1, cfg)
			msg := rec(0, strings.Repeat("x", 64<<10))
			var last *Appended
			for n := 0; n < 256<<20; n += len(msg) {
				a, err := p.Append(context.Background(), bytes.Clone(msg))
				ok(b, err)
				last = a
			}
			ok(b, last.Wait(context.Background()))
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			var total atomic.Int64
			for i := range readers {
				wg.Go(func() {
					chunk := make([]byte, 1<<20)
					pace := time.NewTicker(40 * time.Millisecond)
					defer pace.Stop()
					for at := int64(i * 500); ctx.Err() == nil; <-pace.C {
						got, err := p.Cut(context.Background(), At(at%last.BaseOffset), 1<<20, false)
						if err == nil && got.Region != nil {
							err = got.Region.ReadAt(chunk[:got.Region.Size()], 0)
							at += got.Region.Size() / int64(len(msg))
							total.Add(got.Region.Size())
							got.Region.Release()
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			took := make([]time.Duration, 0, b.N)
			small := rec(0, strings.Repeat("y", 1024))
			b.ResetTimer()
			for range b.N {
				began := time.Now()
				appendOne(b, p, bytes.Clone(small))
				took = append(took, time.Since(began))
			}
			b.StopTimer()
			cancel()
			wg.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(total.Load())/1e6/b.Elapsed().Seconds(), "read-MB/s")
			ok(b, p.Relinquish(context.Background()))
		})
	}
}
