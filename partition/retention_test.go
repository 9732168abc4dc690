package partition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
)

// simVolume is a volume in memory, for tests in a synctest bubble.
func simVolume(t tb) *substrate.Volume {
	t.Helper()
	return newVolume(t, nfssim.New(nfssim.Config{}).Server())
}

// segmentFiles are the names of the partition's segments on the volume.
func segmentFiles(t tb, v *substrate.Volume) (names []string) {
	t.Helper()
	for _, e := range must(v.List(Dir(testID, 0)))(t) {
		if strings.HasSuffix(e.Name, logExt) {
			names = append(names, e.Name)
		}
	}
	return names
}

// retentionConfig has a segment for each batch of appendN.
func retentionConfig(c Cleanup) Config {
	cfg := testConfig()
	cfg.SegmentBytes, cfg.Cleanup = 80, c
	return cfg
}

func TestRetentionBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := simVolume(t)
		p := open(t, newSession(t, v), 1, retentionConfig(Cleanup{Delete: true, RetentionAge: -1, RetentionBytes: 160}))
		abandon(t, p)
		appendN(t, p, 6)
		ok(t, p.Retain(context.Background()))
		// The active one counts: with it, three are 225 bytes, two are 150.
		if start, hw, _ := p.Offsets(); start != 3 || hw != 6 {
			t.Fatalf("log is from %d to %d, want 3 to 6", start, hw)
		}
		synctest.Wait()
		if got := segmentFiles(t, v); len(got) != 3 {
			t.Fatalf("files left: %v", got)
		}
		if got, want := values(t, p), []string{"value-3", "value-4", "value-5"}; !slices.Equal(got, want) {
			t.Fatalf("log holds %v, want %v", got, want)
		}
	})
}

func TestRetentionByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := simVolume(t)
		cfg := retentionConfig(Cleanup{Delete: true, RetentionAge: time.Hour, RetentionBytes: -1})
		p := open(t, newSession(t, v), 1, cfg)
		abandon(t, p)
		now := time.Now().UnixMilli()
		for i, age := range []int64{3, 2, 1, 5, 0} { // the fourth is old, but behind a young one
			appendOne(t, p, rec(now-age*3_600_000+1, fmt.Sprint(i)))
		}
		ok(t, p.Retain(context.Background()))
		if start, _, _ := p.Offsets(); start != 2 {
			t.Fatalf("log starts at %d, want 2", start)
		}
		// The last one too, when its time has come: it is ended first.
		time.Sleep(time.Hour + time.Second)
		ok(t, p.Retain(context.Background()))
		if start, hw, _ := p.Offsets(); start != 5 || hw != 5 {
			t.Fatalf("log is from %d to %d, want 5 to 5", start, hw)
		}
		synctest.Wait()
		if got := segmentFiles(t, v); len(got) != 0 {
			t.Fatalf("files left: %v", got)
		}
		if got := appendOne(t, p, rec(now, "on")); got != 5 {
			t.Fatalf("the next offset is %d, want 5", got)
		}
		ok(t, p.Relinquish(context.Background()))
		p = open(t, newSession(t, v), 2, cfg)
		abandon(t, p)
		if start, hw, _ := p.Offsets(); start != 5 || hw != 6 {
			t.Fatalf("after a takeover the log is from %d to %d, want 5 to 6", start, hw)
		}
	})
}

func TestRetentionPolicies(t *testing.T) {
	for _, tc := range []struct {
		name string
		c    Cleanup
		want int64
	}{
		{"nothing is set", Cleanup{}, 0},
		{"compact alone", Cleanup{Compact: true, RetentionBytes: 1, RetentionAge: 1}, 0},
		{"both", Cleanup{Compact: true, Delete: true, RetentionBytes: 150, RetentionAge: -1}, 4},
		{"no limits", Cleanup{Delete: true, RetentionBytes: -1, RetentionAge: -1}, 0},
		{"zero bytes", Cleanup{Delete: true, RetentionBytes: 0, RetentionAge: -1}, 6},
		{"zero age", Cleanup{Delete: true, RetentionBytes: -1, RetentionAge: 0}, 6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := open(t, newSession(t, simVolume(t)), 1, retentionConfig(tc.c))
			abandon(t, p)
			for i := range 6 {
				appendOne(t, p, kvBatch(t, 0, 0, kv{str("k"), fmt.Appendf(nil, "value-%d", i), int64(i)}))
			}
			ok(t, p.Retain(context.Background()))
			if start, _, _ := p.Offsets(); start != tc.want {
				t.Fatalf("log starts at %d, want %d", start, tc.want)
			}
		})
	}
}

// A file stays for file.delete.delay.ms, and for whoever has it open, and a later
// leader removes what an earlier one left.
func TestDroppedFilesGoLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := simVolume(t)
		cfg := retentionConfig(Cleanup{Delete: true, RetentionAge: -1, RetentionBytes: 80, DeleteDelay: time.Minute})
		p := open(t, newSession(t, v), 1, cfg)
		appendN(t, p, 3)
		p.mu.Lock()
		first := p.mu.segs[0]
		p.mu.Unlock()
		h := must(p.acquire(first))(t)
		ok(t, p.Retain(context.Background()))
		time.Sleep(59 * time.Second)
		if got := segmentFiles(t, v); len(got) != 3 {
			t.Fatalf("files left within the delay: %v", got)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := segmentFiles(t, v); len(got) != 2 {
			t.Fatalf("files left after the delay: %v", got)
		}
		b := make([]byte, first.size)
		if _, err := h.ReadAt(b, 0); err != nil || batch(b).base() != 0 {
			t.Fatalf("who had the file open reads %v", err)
		}
		p.release(h)
		appendN(t, p, 1)
		ok(t, p.Retain(context.Background()))
		ok(t, p.Relinquish(context.Background()))
		if got := segmentFiles(t, v); len(got) != 3 {
			t.Fatalf("files left: %v", got)
		}
		p = open(t, newSession(t, v), 2, cfg)
		abandon(t, p)
		ok(t, p.Retain(context.Background()))
		synctest.Wait()
		if got := segmentFiles(t, v); len(got) != 2 {
			t.Fatalf("files left by the next leader: %v", got)
		}
	})
}

// outside of the log is OFFSET_OUT_OF_RANGE; its two ends are not.
func TestReadAroundLogStart(t *testing.T) {
	for _, start := range []int64{3, 4} { // on a segment's edge, and within a batch
		cfg := testConfig()
		p := open(t, newSession(t, simVolume(t)), 1, cfg)
		abandon(t, p)
		for i := range 3 {
			appendOne(t, p, rec(int64(i)*10, "a", "b", "c"))
			if i == 0 {
				ok(t, p.freeze(context.Background()))
			}
		}
		low, err := p.DeleteRecords(context.Background(), start)
		if err != nil || low != start {
			t.Fatalf("low watermark %d, %v", low, err)
		}
		for _, tc := range []struct {
			at   int64
			base int64 // of the first batch; -1 for none
			err  *kerr.Error
		}{
			{start - 1, 0, kerr.OffsetOutOfRange}, {start, 3, nil}, {8, 6, nil}, {9, -1, nil}, {10, 0, kerr.OffsetOutOfRange}, {-1, 0, kerr.OffsetOutOfRange},
		} {
			f, err := p.Read(context.Background(), tc.at, 1000, true)
			if f.LogStart != start || f.HighWatermark != 9 {
				t.Errorf("read at %d: log is from %d to %d", tc.at, f.LogStart, f.HighWatermark)
			}
			if tc.err != nil {
				wantCode(t, err, tc.err)
				continue
			}
			ok(t, err)
			if bs := batches(t, f.Records); (tc.base < 0) != (len(bs) == 0) || len(bs) > 0 && bs[0].base() != tc.base {
				t.Errorf("read at %d gives %d batches, want the first at %d", tc.at, len(bs), tc.base)
			}
		}
		if off, _, _, err := p.OffsetForTimestamp(context.Background(), 0); err != nil || off != start {
			t.Errorf("first offset by time is %d, %v, want %d", off, err, start)
		}
		if e, end := p.EpochEnd(1); e != 1 || end != 9 {
			t.Errorf("epoch 1 ends as %d at %d", e, end)
		}
	}
}

func TestDeleteRecords(t *testing.T) {
	ctx := context.Background()
	v := simVolume(t)
	cfg := retentionConfig(Cleanup{})
	p := open(t, newSession(t, v), 1, cfg)
	appendN(t, p, 5)
	for _, tc := range []struct {
		before, low int64
		err         *kerr.Error
	}{
		{0, 0, nil}, {2, 2, nil}, {1, 2, nil}, {6, 0, kerr.OffsetOutOfRange}, {-2, 0, kerr.OffsetOutOfRange}, {-1, 5, nil}, {5, 5, nil},
	} {
		low, err := p.DeleteRecords(ctx, tc.before)
		if tc.err != nil {
			wantCode(t, err, tc.err)
			continue
		}
		if err != nil || low != tc.low {
			t.Fatalf("before %d: low watermark %d, %v, want %d", tc.before, low, err, tc.low)
		}
	}
	at := p.w.Committed().Pos
	if _, err := p.DeleteRecords(ctx, 5); err != nil || p.w.Committed().Pos != at {
		t.Errorf("what is deleted already needs no manifest: %v, %s after %s", err, p.w.Committed().Pos, at)
	}
	// The newest segment is below the log start, but open: a takeover finds nothing missing.
	old := p
	p = open(t, newSession(t, v), 2, cfg)
	if start, hw, _ := p.Offsets(); start != 5 || hw != 5 {
		t.Fatalf("after a takeover the log is from %d to %d, want 5 to 5", start, hw)
	}
	if e, end := p.EpochEnd(1); e != 1 || end != 5 {
		t.Errorf("epoch 1 ends as %d at %d", e, end)
	}
	_ = old.Abandon(ctx)
	p.cfg().Cleanup.Compact = true
	_, err := p.DeleteRecords(ctx, 5)
	wantCode(t, err, kerr.PolicyViolation)
	ok(t, p.Relinquish(ctx))
}

// A fenced leader's retention and DeleteRecords change nothing.
func TestFencedRetentionChangesNothing(t *testing.T) {
	v := simVolume(t)
	cfg := retentionConfig(Cleanup{Delete: true, RetentionAge: -1, RetentionBytes: 80})
	zombie := open(t, newSession(t, v), 1, cfg)
	abandon(t, zombie)
	appendN(t, zombie, 4)
	keep := cfg
	keep.Cleanup = Cleanup{}
	p := open(t, newSession(t, v), 2, keep)
	abandon(t, p)
	wantCode(t, zombie.Retain(context.Background()), kerr.NotLeaderForPartition)
	if _, err := zombie.DeleteRecords(context.Background(), 3); err == nil {
		t.Error("a fenced leader deleted records")
	}
	if start, hw, _ := p.Offsets(); start != 0 || hw != 4 || len(values(t, p)) != 4 {
		t.Fatalf("log is from %d to %d", start, hw)
	}
}

// Where nothing is synced before it is acknowledged, the log start still never passes
// what a takeover finds.
func TestDeleteRecordsUnsynced(t *testing.T) {
	cfg := testConfig()
	cfg.FlushMessages = 1000
	v := simVolume(t)
	p := open(t, newSession(t, v), 1, cfg)
	abandon(t, p)
	appendN(t, p, 5)
	if m := committed(t, p); m.Recovery.Offset != 0 {
		t.Fatalf("recovery point at %d already", m.Recovery.Offset)
	}
	must(p.DeleteRecords(context.Background(), 3))(t)
	if m := committed(t, p); m.LogStart != 3 || m.Recovery.Offset < 3 {
		t.Fatalf("log start %d, recovery point %d", m.LogStart, m.Recovery.Offset)
	}
}

// OffsetForLeaderEpoch after retention: epochs wholly below the log start end there, the
// one it lies in begins there, and the later ones are as they were.
func TestEpochsAfterRetention(t *testing.T) {
	ctx := context.Background()
	v := simVolume(t)
	cfg := retentionConfig(Cleanup{})
	var p *Partition
	for epoch := int32(1); epoch <= 4; epoch++ {
		if p != nil {
			ok(t, p.Relinquish(ctx))
		}
		p = open(t, newSession(t, v), epoch*2, cfg) // offsets 0, 3, 6, 9 in epochs 2, 4, 6, 8
		appendN(t, p, 3)
	}
	check := func(start int64) {
		t.Helper()
		for epoch, want := range map[int32][2]int64{
			-1: {-1, -1}, 1: {1, max(start, 0)}, 2: {2, 3}, 3: {2, 3}, 4: {4, 6}, 5: {4, 6}, 6: {6, 9}, 7: {6, 9}, 8: {8, 12}, 9: {-1, -1},
		} {
			if want[0] > 0 && want[1] < start || want[1] == start && want[0] < 8 {
				want = [2]int64{int64(epoch), start} // no longer known: it ends where the log starts
			}
			if e, end := p.EpochEnd(epoch); int64(e) != want[0] || end != want[1] {
				t.Errorf("log starts at %d: epoch %d ends as %d at %d, want %v", start, epoch, e, end, want)
			}
		}
	}
	check(0)
	for _, start := range []int64{2, 3, 4, 7} {
		must(p.DeleteRecords(ctx, start))(t)
		ok(t, p.Retain(ctx))
		check(start)
	}
	ok(t, p.Relinquish(ctx))
	p = open(t, newSession(t, v), 8+1, cfg)
	if e, end := p.EpochEnd(8); e != 8 || end != 12 {
		t.Errorf("after a takeover epoch 8 ends as %d at %d", e, end)
	}
	if e, end := p.EpochEnd(4); e != 4 || end != 7 {
		t.Errorf("after a takeover epoch 4 ends as %d at %d", e, end)
	}
	ok(t, p.Relinquish(ctx))
}

// TestRetentionWithoutTimestamps: records without a time expire by when their segment
// was written last, the newest one too, and not anew when it is ended for that.
func TestRetentionWithoutTimestamps(t *testing.T) {
	ctx := context.Background()
	for _, how := range []string{"active", "rolled", "taken over", "taken over in place", "relinquished"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := simVolume(t)
				cfg := testConfig()
				cfg.Cleanup = Cleanup{Delete: true, RetentionAge: time.Hour, RetentionBytes: -1}
				s := newSession(t, v)
				p := open(t, s, 1, cfg)
				appendOne(t, p, rec(noTimestamp, "a"))
				time.Sleep(50 * time.Minute)
				appendOne(t, p, rec(noTimestamp, "b"))
				next := cfg
				switch how {
				case "rolled":
					ok(t, p.freeze(ctx))
				case "taken over in place":
					next.After = p
					fallthrough
				case "taken over":
					ok(t, p.Abandon(ctx))
					p = open(t, s, 2, next)
				case "relinquished":
					ok(t, p.Relinquish(ctx))
					p = open(t, newSession(t, v), 2, cfg)
				}
				time.Sleep(59 * time.Minute)
				ok(t, p.Retain(ctx))
				if start, _, _ := p.Offsets(); start != 0 {
					t.Fatalf("the log starts at %d within the hour", start)
				}
				time.Sleep(time.Minute + time.Second)
				ok(t, p.Retain(ctx))
				if start, hw, _ := p.Offsets(); start != 2 || hw != 2 {
					t.Fatalf("the log is from %d to %d, want 2 to 2", start, hw)
				}
				ok(t, p.Relinquish(ctx))
			})
		})
	}
}
