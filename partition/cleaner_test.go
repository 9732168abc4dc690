package partition

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// twoPartitions are partitions of one topic, each with old records to be compacted.
func twoPartitions(t tb, v *substrate.Volume, cfg Config) (ps []*Partition) {
	t.Helper()
	ok(t, BuildPartition(v, "setup", testID, testTopic, 1, testTime))
	s := newSession(t, v)
	for i := range int32(2) {
		p, err := Open(context.Background(), s, testID, testTopic, i, 1, cfg)
		must(p, err)(t)
		for j := range 40 {
			appendOne(t, p, kvBatch(t, 0, 0, kv{str("a"), fmt.Appendf(nil, "%d", j), time.Now().UnixMilli()}))
		}
		ps = append(ps, p)
	}
	return ps
}

// C-02: one damaged partition is logged, counted and tried again; others are cleaned on
// time, and it too once it is mended, without a restart.
func TestCleanerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := simVolume(t)
		cfg := compactConfig()
		cfg.SegmentBytes = 160
		cfg.Cleanup.Delete, cfg.Cleanup.RetentionAge, cfg.Cleanup.RetentionBytes = true, time.Hour, -1
		ps := twoPartitions(t, v, cfg)
		bad, good := ps[0], ps[1]
		var mended atomic.Bool
		bad.v = &substrate.Volume{FS: flipFS{FS: v.FS, name: committed(t, bad).Segments[1].String(), at: 70, mended: &mended}, NewID: v.NewID, ID: v.ID}
		c := NewCleaner(func() []*Partition { return ps }, CleanerOptions{Threads: 2, Log: quiet})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()

		time.Sleep(time.Minute)
		if got := committed(t, good).Cleaned; got < 38 {
			t.Errorf("the sound partition is cleaned to %d", got)
		}
		if st := c.Stats(); st.Failures < 2 || st.Failing != 1 || st.Compactions != 1 || bad.Err() != nil {
			t.Errorf("with a damaged partition: %+v, %v", st, bad.Err())
		}
		mended.Store(true)
		time.Sleep(longestBackoff + time.Minute)
		if got := committed(t, bad).Cleaned; got < 38 {
			t.Errorf("the mended partition is cleaned to %d", got)
		}
		if st := c.Stats(); st.Failing != 0 || st.Retentions == 0 {
			t.Errorf("after it was mended: %+v", st)
		}
		time.Sleep(2 * time.Hour)
		for _, p := range ps {
			if start, hw, _ := p.Offsets(); start != hw || hw != 40 {
				t.Errorf("retention left %d to %d", start, hw)
			}
		}
		stop()
		<-done
		for _, p := range ps {
			ok(t, p.Relinquish(context.Background()))
		}
	})
}

// The limit holds for all that compaction reads and writes.
func TestCleanerIsThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := simVolume(t)
		ps := twoPartitions(t, v, compactConfig())
		c := NewCleaner(func() []*Partition { return ps }, CleanerOptions{Threads: 2, BytesPerSecond: 100, Backoff: time.Millisecond, Log: quiet})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		start := time.Now()
		for c.Stats().Compactions < 2 {
			time.Sleep(time.Second)
		}
		// Each partition has some 2,900 bytes, read twice: once for its keys.
		if d := time.Since(start); d < 80*time.Second || d > 200*time.Second {
			t.Errorf("11,600 bytes at 100 a second took %v", d)
		}
		for _, p := range ps { // something new to do, and it is stopped in the middle
			for range 40 {
				appendOne(t, p, kvBatch(t, 0, 0, kv{str("a"), str("v"), 1}))
			}
		}
		time.Sleep(5 * time.Second)
		stop()
		<-done
		for _, p := range ps {
			ok(t, p.Relinquish(context.Background()))
		}
	})
}

// Retention of a partition does not wait for the compaction of another, however long
// that takes; and where it came by a partition that was being compacted, it has its turn
// right after.
func TestRetentionDoesNotWaitForCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := simVolume(t)
		ps := twoPartitions(t, v, compactConfig())
		both, expires := compactConfig(), compactConfig()
		both.Cleanup.Delete, both.Cleanup.RetentionAge, both.Cleanup.RetentionBytes = true, 10*time.Minute, -1
		ps[0].Reconfigure(both)
		expires.Cleanup = Cleanup{Delete: true, RetentionAge: 10 * time.Minute, RetentionBytes: -1}
		ps[1].Reconfigure(expires)
		c := NewCleaner(func() []*Partition { return ps }, CleanerOptions{BytesPerSecond: 1, RetentionInterval: 7 * time.Minute, Log: quiet})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		time.Sleep(30 * time.Minute)
		if st := c.Stats(); st.Compactions != 0 {
			t.Fatalf("the compaction was to take longer: %+v", st)
		}
		if start, hw, _ := ps[1].Offsets(); start != hw {
			t.Errorf("while another partition is compacted, retention left %d to %d", start, hw)
		}
		for c.Stats().Compactions == 0 {
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Second) // far less than to the next look
		if start, hw, _ := ps[0].Offsets(); start != hw {
			t.Errorf("right after its compaction, retention left %d to %d", start, hw)
		}
		stop()
		<-done
		for _, p := range ps {
			ok(t, p.Relinquish(context.Background()))
		}
	})
}

// A partition that is due, but has a transaction in the way, does not hold up another.
func TestCleanerPutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := simVolume(t)
		ok(t, BuildPartition(v, "setup", testID, testTopic, 1, testTime))
		s := newSession(t, v)
		var ps []*Partition
		for i := range int32(2) {
			p, err := Open(context.Background(), s, testID, testTopic, i, 1, compactConfig())
			ps = append(ps, must(p, err)(t))
			if i == 0 {
				putTxn(t, p, 1, 0, str("a"), str("open"))
			}
			for range 20 {
				appendOne(t, p, kvBatch(t, 0, 0, kv{str("a"), str("v"), 1}))
			}
			ok(t, p.freeze(context.Background()))
		}
		c := NewCleaner(func() []*Partition { return ps }, CleanerOptions{Log: quiet})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		time.Sleep(16 * time.Second)
		if a, b := committed(t, ps[0]).Cleaned, committed(t, ps[1]).Cleaned; a != 0 || b != 20 {
			t.Errorf("cleaned to %d and %d", a, b)
		}
		putTxn(t, ps[0], 1, attrControl, commitKey, []byte{0, 0, 0, 0, 0, 0})
		time.Sleep(20 * time.Second)
		if a := committed(t, ps[0]).Cleaned; a != 21 {
			t.Errorf("cleaned to %d after the transaction's end", a)
		}
		stop()
		<-done
		for _, p := range ps {
			ok(t, p.Relinquish(context.Background()))
		}
	})
}

// Numbers of threads and bytes a second take effect while the cleaner runs, and so does a
// backoff, which is not waited for to its end.
func TestCleanerReconfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := make(chan struct{}, 100)
		c := NewCleaner(func() []*Partition { rounds <- struct{}{}; return nil }, CleanerOptions{Threads: 2, RetentionInterval: 240 * time.Hour, Backoff: 24 * time.Hour, BytesPerSecond: 1, Log: quiet})
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		threads := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.mu.many
		}
		for _, want := range []int{2, 5, 1, 3} {
			c.Reconfigure(CleanerOptions{Threads: want, Backoff: 24 * time.Hour, BytesPerSecond: 100})
			if got := threads(); got != want || c.Stats().Threads != want {
				t.Errorf("%d threads, want %d", got, want)
			}
		}
		began := time.Now()
		for range 2 { // the second waits for what the first took
			if err := c.limit.wait(ctx, 1000); err != nil {
				t.Fatal(err)
			}
		}
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("1,000 bytes are paid for after %v", d)
		}
		synctest.Wait()
		for len(rounds) > 0 { // a thread that was told of too many, and was not the one, has looked
			<-rounds
		}
		c.Reconfigure(CleanerOptions{Threads: 3, Backoff: time.Second})
		began = time.Now()
		<-rounds
		if d := time.Since(began); d != time.Second {
			t.Errorf("the next round is %v after the change, want a second", d)
		}
		stop()
		<-done
	})
}
