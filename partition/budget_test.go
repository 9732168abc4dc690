package partition

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/metalog"
)

// countingFS counts the bytes that are read. Of segments it keeps the batches' headers
// alone: the rest of a large batch is a hole.
type countingFS struct {
	substrate.FS
	read atomic.Int64
}

type countingFile struct {
	substrate.File
	fs   *countingFS
	thin bool
}

func (c *countingFS) wrap(name string, f substrate.File, err error) (substrate.File, error) {
	if err != nil {
		return nil, err
	}
	return &countingFile{f, c, strings.HasSuffix(name, ".log")}, nil
}

func (c *countingFS) Open(name string) (substrate.File, error) {
	f, err := c.FS.Open(name)
	return c.wrap(name, f, err)
}

func (c *countingFS) CreateExclusive(name string) (substrate.File, error) {
	f, err := c.FS.CreateExclusive(name)
	return c.wrap(name, f, err)
}

func (f *countingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.fs.read.Add(int64(n))
	return n, err
}

func (f *countingFile) WriteAt(b []byte, off int64) (int, error) {
	const ends = 4096
	if !f.thin || len(b) <= 2*ends {
		return f.File.WriteAt(b, off)
	}
	for _, at := range []int{0, len(b) - ends} {
		if _, err := f.File.WriteAt(b[at:at+ends], off+int64(at)); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// A partition with a full active segment is taken over, after a clean stop, by reading
// its manifest alone; a fetch near its end reads little more.
func TestTakeoverAfterACleanStopReadsLittle(t *testing.T) {
	const batchBytes, total = 4 << 20, 1<<30 - 8<<20
	c := &countingFS{FS: must(substrate.OpenDir(t.TempDir()))(t)}
	v := newVolume(t, c)
	s := newSession(t, v)
	cfg := testConfig()
	cfg.MaxMessageBytes = batchBytes + 1024
	p := open(t, s, 1, cfg)
	big := rec(0, strings.Repeat("x", batchBytes))
	for n := 0; n < total; n += len(big) {
		appendOne(t, p, append(batch(nil), big...))
	}
	for i := range 100 { // the newest are small, so that a fetch of them may be
		appendOne(t, p, rec(int64(i), "small"))
	}
	_, end, _ := p.Offsets()
	if len(p.mu.segs) != 1 || p.active.size < total {
		t.Fatalf("%d segments, the newest has %d bytes", len(p.mu.segs), p.active.size)
	}
	ok(t, p.Relinquish(context.Background()))
	ok(t, s.Close(context.Background()))

	c.read.Store(0)
	q := open(t, newSession(t, v), 2, cfg)
	abandon(t, q)
	taken := c.read.Load()
	f, err := q.Read(context.Background(), end-1, 1, true)
	ok(t, err)
	t.Logf("takeover read %d bytes, a fetch of the last batch %d more", taken, c.read.Load()-taken)
	if _, hw, _ := q.Offsets(); hw != end || len(batches(t, f.Records)) != 1 {
		t.Errorf("high watermark %d of %d", hw, end)
	}
	if n := c.read.Load(); n >= 1<<20 {
		t.Errorf("takeover and fetch read %d bytes", n)
	}
}

// pastRecovery is what a takeover of everything would have to scan, as the volume tells.
func pastRecovery(t *testing.T, v *substrate.Volume, dir string, partitions int) (n int64) {
	t.Helper()
	for i := range int32(partitions) {
		snap, _, err := metalog.ReadState(context.Background(), v, ManifestStream(testID, i), ManifestSchema())
		ok(t, err)
		s := snap.State.newest()
		if s == nil || !s.open() {
			continue
		}
		err = filepath.WalkDir(filepath.Join(dir, path.Join(Dir(testID, i), s.SegmentID.String())), func(_ string, e fs.DirEntry, err error) error {
			if err == nil {
				var fi fs.FileInfo
				if fi, err = e.Info(); err == nil {
					n += fi.Size() - snap.State.Recovery.Pos
				}
			}
			return err
		})
		ok(t, err)
	}
	return n
}

// However partitions are written to, a crash leaves no more than the budget to scan.
func TestRecoveryBudgetHoldsAtACrash(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashWithBudget(t, rand.New(rand.NewPCG(seed, 9))) })
	}
}

func crashWithBudget(t *testing.T, rng *rand.Rand) {
	const partitions, total = 7, 64 << 10
	dir := t.TempDir()
	d := must(substrate.OpenDir(dir))(t)
	var crashed atomic.Bool
	v := must(substrate.OpenVolume(&faultfs.FS{FS: d, Hook: func(faultfs.Op) faultfs.Fault {
		if crashed.Load() {
			return faultfs.Fault{Err: syscall.EIO}
		}
		return faultfs.Fault{}
	}}, ""))(t)
	ok(t, BuildTopic(v, "setup", testID, testTopic, partitions, testTime))
	s := newSession(t, v)
	budget := NewRecoveryBudget(total)
	cfg := testConfig()
	cfg.Recovery = budget
	cfg.SegmentBytes = int64(20<<10 + rng.IntN(1<<20))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var acked atomic.Int64
	for i := range int32(partitions) {
		p := must(Open(context.Background(), s, testID, testTopic, i, 1, cfg))(t)
		abandon(t, p)
		// Some are busy, some write once in a while, and some stop after a few.
		pause, most := time.Duration(rng.IntN(3))*time.Millisecond, 1+rng.IntN(3)*200
		size := 100 + rng.IntN(5000)
		wg.Go(func() {
			for n := 0; n < most && ctx.Err() == nil; n++ {
				a, err := p.Append(ctx, rec(0, strings.Repeat("v", size)))
				if err != nil || a.Wait(ctx) != nil {
					return
				}
				acked.Add(int64(size))
				sleep.For(ctx, pause)
			}
		})
	}
	sleep.For(ctx, time.Duration(100+rng.IntN(300))*time.Millisecond)
	if n := budget.Used(); n > total {
		t.Errorf("%d bytes used", n)
	}
	crashed.Store(true) // every call from here on fails, those under way come to their end
	cancel()
	wg.Wait()
	left := pastRecovery(t, must(substrate.OpenVolume(d, ""))(t), dir, partitions)
	t.Logf("acknowledged %d bytes, past recovery points %d", acked.Load(), left)
	// What is written and not yet named by a manifest is not scanned; what is scanned is in the budget.
	if left > total {
		t.Errorf("%d bytes are past recovery points, at most %d may be", left, total)
	}
}

// A partition whose volume hangs keeps its part of the budget no longer than it lives.
func TestHungPartitionFreesItsBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSickVolume(t)
		ok(t, BuildTopic(v.Volume, "setup", [16]byte{7}, "other", 1, testTime))
		s := newSession(t, v.Volume)
		cfg := testConfig()
		cfg.Recovery, cfg.StallAfter = NewRecoveryBudget(10<<10), 2*time.Second
		p := open(t, s, 1, cfg)
		abandon(t, p)
		q := must(Open(context.Background(), s, [16]byte{7}, "other", 0, 1, cfg))(t)
		abandon(t, q)
		appendOne(t, p, rec(0, "the manifest that names a segment has a recovery point"))
		appendOne(t, p, rec(0, strings.Repeat("v", 7<<10)))
		release := v.hang(t, func(o faultfs.Op) bool { return strings.HasPrefix(o.Path, Dir(testID, 0)) })
		for range 30 {
			appendOne(t, q, rec(0, strings.Repeat("v", 2<<10)))
		}
		release()
		<-p.Done() // it was asked for its recovery point and could not publish it
		if n := cfg.Recovery.Used(); n > 10<<10 {
			t.Errorf("%d bytes used", n)
		}
	})
}

// A write larger than the budget goes through alone.
func TestBudgetSmallerThanABatch(t *testing.T) {
	cfg := testConfig()
	cfg.Recovery = NewRecoveryBudget(10)
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	appendN(t, p, 20)
	ok(t, p.Relinquish(context.Background()))
	if n := cfg.Recovery.Used(); n != 0 {
		t.Errorf("%d bytes are still used", n)
	}
}
