package partition

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestRollByRecordTime: segment.ms counts from a segment's first batch to the one that
// comes, by what the records say; the clock is asked where the first has no time.
func TestRollByRecordTime(t *testing.T) {
	hour := time.Hour.Milliseconds()
	for _, tc := range []struct {
		name       string
		appendTime bool
		every      time.Duration // by the clock, between two appends
		times      []int64
		want       []int64 // bases of the segments
	}{
		{"old records at once", false, 0, []int64{0, hour, hour + 1, 2 * hour, 2*hour + 2}, []int64{0, 2, 4}},
		{"one time for long", false, 30 * time.Minute, []int64{5, 5, 5, 5, 5}, []int64{0}},
		{"a first in the future", false, 0, []int64{5, 9 * hour, 6, 7, 9*hour + 5}, []int64{0, 1}},
		{"no times", false, 40 * time.Minute, []int64{-1, -1, -1, -1, -1}, []int64{0, 2, 4}},
		{"no time at first", false, 0, []int64{-1, 5, 9 * hour, 10 * hour}, []int64{0}},
		{"no time later", false, 2 * time.Hour, []int64{5, -1, -1, 6}, []int64{0}},
		{"far apart", false, 0, []int64{0, 1<<63 - 1, -1 << 63, 7}, []int64{0, 1}},
		{"append times", true, 40 * time.Minute, []int64{0, 0, 9 * hour, 0, -1}, []int64{0, 2, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := testConfig()
				cfg.SegmentAge, cfg.LogAppendTime = time.Hour, tc.appendTime
				p := open(t, newSession(t, simVolume(t)), 1, cfg)
				for _, ts := range tc.times {
					appendOne(t, p, rec(ts, "v"))
					time.Sleep(tc.every)
				}
				wantBases(t, p, tc.want)
				ok(t, p.Relinquish(context.Background()))
			})
		})
	}
}

func wantBases(t *testing.T, p *Partition, want []int64) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []int64
	for _, s := range p.mu.segs {
		got = append(got, s.id.Base)
	}
	if len(got) != len(want) {
		t.Fatalf("segments begin at %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("segments begin at %v, want %v", got, want)
		}
	}
}

// TestRollWithinARun: batches that wait for the writer together are parted too, and a
// tail that a takeover copies counts from its first batch.
func TestRollWithinARun(t *testing.T) {
	hour := time.Hour.Milliseconds()
	cfg := testConfig()
	cfg.SegmentAge = time.Hour
	v := simVolume(t)
	p := open(t, newSession(t, v), 1, cfg)
	p.mu.Lock()
	p.mu.writing = true // the queue fills up until the writer may go
	p.mu.Unlock()
	var as []*Appended
	for _, ts := range []int64{0, 1, 2 * hour, 2*hour + 1, 5 * hour} {
		as = append(as, must(p.Append(context.Background(), rec(ts, "v")))(t))
	}
	p.mu.Lock()
	p.wg.Go(p.runWriter)
	p.mu.Unlock()
	for _, a := range as {
		ok(t, a.Wait(context.Background()))
	}
	wantBases(t, p, []int64{0, 2, 4})
	appendOne(t, p, rec(5*hour+1, "v")) // the tail: it is behind the recovery point
	abandon(t, p)
	p = open(t, newSession(t, v), 2, cfg)
	abandon(t, p)
	appendOne(t, p, rec(6*hour+1, "v"))
	wantBases(t, p, []int64{0, 2, 4, 5})
	appendOne(t, p, rec(6*hour+2, "v"))
	wantBases(t, p, []int64{0, 2, 4, 5, 7})
}
