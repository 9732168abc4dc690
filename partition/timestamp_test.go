package partition

import (
	"context"
	"testing"

	"pgregory.net/rapid"
)

// Lookups by time find the exact record, in batches of any codec, with times in any
// order, and never one below the log start.
func TestTimestampsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.SegmentBytes = rapid.Int64Range(500, 3000).Draw(t, "segment.bytes")
		cfg.IndexIntervalBytes = rapid.IntRange(1, 500).Draw(t, "index.interval.bytes")
		v := simVolume(t)
		p := open(t, newSession(t, v), 1, cfg)
		var times []int64
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			var recs []kv
			for range rapid.IntRange(1, 5).Draw(t, "records") {
				recs = append(recs, kv{nil, str("v"), rapid.Int64Range(0, 60).Draw(t, "time")})
				times = append(times, recs[len(recs)-1].ts)
			}
			appendOne(t, p, kvBatch(t, rapid.Uint16Range(0, 4).Draw(t, "codec"), 1, recs...))
		}
		start := rapid.Int64Range(0, int64(len(times))).Draw(t, "log start")
		must(p.DeleteRecords(context.Background(), start))(t)
		if rapid.Bool().Draw(t, "reopen") {
			ok(t, p.Relinquish(context.Background()))
			p = open(t, newSession(t, v), 2, cfg)
		}
		for ts := int64(-1); ts < 62; ts++ {
			want := nowhere
			for off := start; off < int64(len(times)); off++ {
				if times[off] >= ts {
					want = place{off, times[off], 1}
					break
				}
			}
			off, at, epoch, err := p.OffsetForTimestamp(context.Background(), ts)
			ok(t, err)
			if got := (place{off, at, epoch}); got != want {
				t.Fatalf("first since %d is %+v, want %+v; log starts at %d, times %v", ts, got, want, start, times)
			}
		}
		want := nowhere
		for off := start; off < int64(len(times)); off++ {
			if times[off] > want.time {
				want = place{off, times[off], 1}
			}
		}
		off, at, epoch, err := p.MaxTimestamp(context.Background())
		ok(t, err)
		if got := (place{off, at, epoch}); got != want {
			t.Fatalf("largest is %+v, want %+v; log starts at %d, times %v", got, want, start, times)
		}
		ok(t, p.Abandon(context.Background()))
	})
}
