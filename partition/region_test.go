package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
)

// wantCut is what Cut owes for a log of whole batches, by the plainest search.
func wantCut(all []batch, ends []int, offset int64, maxBytes int, minOne bool) (out []byte) {
	for i, b := range all {
		if b.next() <= offset {
			continue
		}
		if len(out)+len(b) > maxBytes && (len(out) > 0 || !minOne) {
			break
		}
		if out = append(out, b...); ends[i] > 0 { // a segment ends
			break
		}
	}
	return out
}

// Cut finds the batch that has the offset and whole batches after it, up to the
// limits and the segment's end, and Ahead counts exactly; with every index density and
// after a restart, with and without index files.
func TestCutAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := testConfig()
		cfg.SegmentBytes = rapid.Int64Range(400, 4000).Draw(rt, "segment")
		cfg.FlushMessages = 1 << 40
		cfg.IndexIntervalBytes = rapid.IntRange(1, 2000).Draw(rt, "interval")
		fs := must(substrate.OpenDir(t.TempDir()))(rt)
		v := newVolume(rt, fs)
		p := open(rt, newSession(rt, v), 1, cfg)
		n := rapid.IntRange(1, 25).Draw(rt, "batches")
		for range n {
			vals := make([]string, rapid.IntRange(1, 3).Draw(rt, "records"))
			for i := range vals {
				vals[i] = strings.Repeat("v", rapid.IntRange(0, 60).Draw(rt, "size"))
			}
			appendOne(rt, p, rec(0, vals...))
		}
		switch rapid.IntRange(0, 2).Draw(rt, "restart") {
		case 1:
			ok(rt, p.Relinquish(context.Background()))
			p = open(rt, newSession(rt, v), 2, cfg)
		case 2:
			ok(rt, p.Abandon(context.Background()))
			p = open(rt, newSession(rt, v), 2, cfg)
		}
		defer func() { _ = p.Abandon(context.Background()) }()
		var all []batch
		start, hw, _ := p.Offsets()
		for at := start; at < hw; at = all[len(all)-1].next() {
			all = append(all, read(rt, p, at)...)
		}
		ends := make([]int, len(all))
		for _, s := range p.mu.segs {
			for i, b := range all {
				if b.next() == s.end {
					ends[i] = 1
				}
			}
		}
		for range 30 {
			offset := rapid.Int64Range(0, hw).Draw(rt, "offset")
			maxBytes := rapid.IntRange(0, 5000).Draw(rt, "max")
			minOne := rapid.Bool().Draw(rt, "minOne")
			place := At(offset)
			if rapid.Bool().Draw(rt, "located") {
				var err error
				place, err = p.Locate(context.Background(), offset)
				ok(rt, err)
				left := int64(0)
				for _, b := range all {
					if b.next() > offset {
						left += int64(len(b))
					}
				}
				if got, fine := p.Ahead(place); got != left || !fine {
					rt.Fatalf("%d bytes ahead of %d, want %d", got, offset, left)
				}
			}
			got, err := p.Cut(context.Background(), place, maxBytes, minOne)
			ok(rt, err)
			var b []byte
			if got.Region != nil {
				b, err = got.Region.Bytes(context.Background())
				ok(rt, err)
				got.Region.Release()
				got.Region.Release()
			}
			if want := wantCut(all, ends, offset, maxBytes, minOne); !bytes.Equal(b, want) || got.HighWatermark != hw {
				rt.Fatalf("cut at %d, max %d, minOne %v: %d bytes, want %d", offset, maxBytes, minOne, len(b), len(want))
			}
		}
		for _, offset := range []int64{-1, hw + 1} {
			_, err := p.Cut(context.Background(), At(offset), 1, true)
			wantCode(rt, err, kerr.OffsetOutOfRange)
		}
	})
}

// A place that was taken at the high watermark counts what is appended after it, over
// rolls, without a look at the volume.
func TestAheadOfTheEnd(t *testing.T) {
	var reads atomic.Int64
	cfg := testConfig()
	cfg.SegmentBytes = 300
	p := open(t, newSession(t, newVolume(t, countedFS{must(substrate.OpenDir(t.TempDir()))(t), &reads, nil})), 1, cfg)
	abandon(t, p)
	empty, err := p.Locate(context.Background(), 0)
	ok(t, err)
	news := make(chan struct{}, 1)
	p.Watch(news)
	want := int64(0)
	var middle Place
	for i := range 10 {
		b := rec(0, fmt.Sprint("value", i))
		want += int64(len(b))
		appendOne(t, p, b)
		select {
		case <-news:
		default:
			t.Fatal("no news of an append")
		}
		if i == 4 {
			middle, err = p.Locate(context.Background(), 5)
			ok(t, err)
		}
	}
	before := reads.Load()
	if got, fine := p.Ahead(empty); got != want || !fine {
		t.Errorf("%d bytes ahead of the empty log, want %d", got, want)
	}
	if got, fine := p.Ahead(middle); got != want/2 || !fine {
		t.Errorf("%d bytes ahead of the middle, want %d", got, want/2)
	}
	if n := reads.Load() - before; n != 0 {
		t.Errorf("%d bytes were read to count", n)
	}
	p.Unwatch(news)
	appendN(t, p, 1)
	if len(news) != 0 {
		t.Error("news after Unwatch")
	}
	p.Watch(news)
	ok(t, p.Relinquish(context.Background()))
	<-news
	if _, fine := p.Ahead(empty); fine {
		t.Error("an ended partition counts")
	}
}

// countedFS counts the bytes that are read and the files that are opened.
type countedFS struct {
	substrate.FS
	bytes *atomic.Int64
	opens func(name string)
}

func (c countedFS) Open(name string) (substrate.File, error) {
	f, err := c.FS.Open(name)
	if c.opens != nil {
		c.opens(name)
	}
	return countedFile{f, c.bytes}, err
}

func (c countedFS) CreateExclusive(name string) (substrate.File, error) {
	f, err := c.FS.CreateExclusive(name)
	return countedFile{f, c.bytes}, err
}

type countedFile struct {
	substrate.File
	n *atomic.Int64
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.n.Add(int64(n))
	return n, err
}

// A fetch near the end of a segment of a GiB reads less than a MiB, the index and the
// records included: from the index in memory, and from its file after a restart.
func TestFetchNearTheEndOfALargeSegment(t *testing.T) {
	var bytesRead atomic.Int64
	fs := countedFS{must(substrate.OpenDir(t.TempDir()))(t), &bytesRead, nil}
	v := newVolume(t, fs)
	cfg := testConfig()
	cfg.FlushMessages = 1 << 40
	p := open(t, newSession(t, v), 1, cfg)
	appendOne(t, p, rec(0, "first"))
	// The rest of the GiB is a hole in the file but for the headers: batches of 256 KiB.
	// The last MiB is batches of 16 KiB as they come.
	s := p.active
	b := rec(0, strings.Repeat("x", 256<<10-batchHeader-10))
	var last int64
	for s.size+int64(len(b)) < 1<<30-1<<20 {
		batch(b).place(s.end, 1)
		if _, err := s.file.WriteAt(b[:batchHeader], s.size); err != nil {
			t.Fatal(err)
		}
		p.wrote([][]byte{b})
		for range 15 { // as many entries as batches of 16 KiB would make
			s.index.entries = append(s.index.entries, s.index.entries[len(s.index.entries)-1])
		}
	}
	b = rec(0, strings.Repeat("x", 16<<10-batchHeader-10))
	p.mu.Lock()
	p.mu.next, p.mu.written = s.end, mark{s.end, s, s.size}
	p.mu.Unlock()
	for range 60 {
		last = appendOne(t, p, bytes.Clone(b))
	}
	fetch := func(what string) {
		t.Helper()
		for _, offset := range []int64{last - 40, last, last / 2} {
			bytesRead.Store(0)
			got, err := p.Cut(context.Background(), At(offset), 256<<10, true)
			ok(t, err)
			recs, err := got.Region.Bytes(context.Background())
			ok(t, err)
			got.Region.Release()
			if batch(recs).base() != offset {
				t.Errorf("%s: fetch at %d begins with %d", what, offset, batch(recs).base())
			}
			t.Logf("%s: fetch of %d bytes at %d of %d reads %d bytes", what, len(recs), offset, last, bytesRead.Load())
			if bytesRead.Load() >= 1<<20 {
				t.Errorf("%s: fetch at %d reads %d bytes", what, offset, bytesRead.Load())
			}
		}
	}
	fetch("written")
	ok(t, p.Relinquish(context.Background()))
	bytesRead.Store(0)
	p = open(t, newSession(t, v), 2, cfg)
	abandon(t, p)
	if bytesRead.Load() >= 1<<20 {
		t.Errorf("the takeover reads %d bytes", bytesRead.Load())
	}
	fetch("reopened")
}

// An index of any number of entries fits into its file, and stays right.
func TestSparseIndex(t *testing.T) {
	for _, n := range []int{0, 1, fileEntries, fileEntries + 1, 3 * fileEntries} {
		x := newIndex()
		for i := range n {
			x.entries = append(x.entries, indexEntry{uint32(i), uint32(100 * i), int64(i - 1)})
		}
		x.upto = int64(100 * n)
		raw, err := x.encode()
		ok(t, err)
		y, fine := decodeIndex("x", raw, x.upto)
		if !fine || len(raw) > 16*fileEntries+1024 {
			t.Fatalf("%d entries: %d bytes, read back: %v", n, len(raw), fine)
		}
		for _, rel := range []int64{0, 1, int64(n / 2), int64(n) - 1} {
			if rel >= 0 && (y.floor(rel) > 100*rel || y.floor(rel) < 100*(rel-4) || y.floorTime(rel) > 100*(rel+1)) {
				t.Errorf("%d entries: floor of %d is %d", n, rel, y.floor(rel))
			}
		}
	}
}

// A region that is being sent holds neither the partition nor its end; its file is
// closed by its release, and not before.
func TestRegionOutlivesThePartition(t *testing.T) {
	dir := t.TempDir()
	p := open(t, newSession(t, newVolume(t, must(substrate.OpenDir(dir))(t))), 1, testConfig())
	b := rec(0, "value")
	appendOne(t, p, b)
	got, err := p.Cut(context.Background(), At(0), 1<<20, true)
	ok(t, err)
	ok(t, p.Relinquish(context.Background())) // does not wait
	file, pos, fine := got.Region.File()
	if !fine || pos != 0 || file == nil {
		t.Fatal("the kernel cannot send a plain file")
	}
	recs := make([]byte, got.Region.Size())
	_, err = got.Region.h.ReadAt(recs, 0)
	ok(t, err)
	if len(batches(t, recs)) != 1 {
		t.Errorf("%d bytes", len(recs))
	}
	h := got.Region.h
	got.Region.Release()
	if _, err := h.ReadAt(recs, 0); err == nil {
		t.Error("the file is still open")
	}
	_, err = p.Cut(context.Background(), At(0), 1<<20, true)
	wantCode(t, err, kerr.NotLeaderForPartition)
}

// Whatever old segments are read, the newest keeps its file and index.
func TestOldReadersLeaveTheTail(t *testing.T) {
	opened := map[string]int{}
	var n atomic.Int64
	fs := countedFS{must(substrate.OpenDir(t.TempDir()))(t), &n, func(name string) {
		if strings.HasSuffix(name, ".log") {
			opened[path.Base(name)]++
		}
	}}
	cfg := testConfig()
	cfg.SegmentBytes = 300
	p := open(t, newSession(t, newVolume(t, fs)), 1, cfg)
	abandon(t, p)
	appendN(t, p, 100)
	newest := p.mu.segs[len(p.mu.segs)-1]
	for range 3 {
		for offset := range int64(90) {
			got, err := p.Cut(context.Background(), At(offset), 1<<20, true)
			ok(t, err)
			got.Region.Release()
		}
		if newest.file == nil || newest.index == nil || opened[newest.id.String()] > 0 {
			t.Fatalf("the newest segment was evicted, opened %d times", opened[newest.id.String()])
		}
		if len(p.mu.recent) > cachedSegments+1 {
			t.Fatalf("%d segments are kept open", len(p.mu.recent))
		}
	}
	before := n.Load()
	if _, err := p.Cut(context.Background(), At(100), 1<<20, true); err != nil || n.Load() != before {
		t.Errorf("a fetch at the end read %d bytes: %v", n.Load()-before, err)
	}
}

// Bytes that are not what was written are told as damage, at both ends of a region.
func TestCutFindsDamage(t *testing.T) {
	cfg := testConfig()
	cfg.IndexIntervalBytes = 100
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	appendN(t, p, 20)
	size := int64(len(rec(0, "value-0")))
	for _, i := range []int64{3, 7} { // the first batch, and the one after the last
		if _, err := p.active.file.WriteAt([]byte{1}, i*size+16); err != nil {
			t.Fatal(err)
		}
		_, err := p.Cut(context.Background(), At(3), int(4*size), true)
		var de *substrate.DamageError
		if !errors.As(err, &de) || de.Offset != i*size {
			t.Errorf("batch %d damaged: %v", i, err)
		}
		if _, err := p.active.file.WriteAt([]byte{2}, i*size+16); err != nil {
			t.Fatal(err)
		}
	}
}

// readOrCut reads by either way.
func readOrCut(ctx context.Context, p *Partition, rng *rand.Rand, offset int64, maxBytes int) (Fetched, error) {
	if rng.IntN(2) == 0 {
		return p.Read(ctx, offset, maxBytes, true)
	}
	place := At(offset)
	if rng.IntN(2) == 0 {
		var err error
		if place, err = p.Locate(ctx, offset); err != nil {
			start, _, _ := p.Offsets() // at least what it was refused for
			return Fetched{LogStart: start}, err
		}
	}
	c, err := p.Cut(ctx, place, maxBytes, true)
	f := Fetched{HighWatermark: c.HighWatermark, LastStableOffset: c.LastStableOffset, LogStart: c.LogStart}
	if c.Region != nil {
		defer c.Region.Release()
		f.Records, err = c.Region.Bytes(ctx)
	}
	return f, err
}

// F-02: from every offset below the high watermark a fetch comes on, whatever holes
// compaction has left: within a segment, at its beginning and at its end, and where a
// whole segment has nothing left but one batch.
func TestCutOverHoles(t *testing.T) {
	p := open(t, newSession(t, dirVolume(t)), 1, testConfig())
	abandon(t, p)
	var all []batch
	put := func(base int64, values ...string) {
		b := batch(rec(0, values...))
		b.place(base, 1)
		if _, err := p.active.file.WriteAt(b, p.active.size); err != nil {
			t.Fatal(err)
		}
		p.wrote([][]byte{b})
		all = append(all, b)
	}
	for _, bases := range [][]int64{{0, 3, 5, 20}, {37, 90}, {150}, {160, 162, 199}} {
		ok(t, p.roll(bases[0]/10*10)) // below its first batch
		for _, b := range bases {
			put(b, "a", "b")
		}
	}
	p.mu.Lock()
	s := p.active
	p.mu.next, p.mu.written, p.mu.hw = s.end, mark{s.end, s, s.size}, mark{s.end, s, s.size}
	p.mu.Unlock()
	for at := range s.end {
		for _, minBytes := range []int{0, 1, 1 << 20} {
			got, err := p.Cut(context.Background(), At(at), minBytes, true)
			ok(t, err)
			if got.Region == nil {
				t.Fatalf("nothing at %d of %d", at, s.end)
			}
			recs, err := got.Region.Bytes(context.Background())
			ok(t, err)
			got.Region.Release()
			want := int64(-1)
			for _, b := range all {
				if b.next() > at {
					want = b.base()
					break
				}
			}
			if b := batch(recs); b.base() != want || b.next() <= at {
				t.Fatalf("fetch at %d begins with the batch of %d, want %d", at, b.base(), want)
			}
		}
	}
}

// An index that had to be rebuilt is there for the next reader.
func TestRebuiltIndexIsKept(t *testing.T) {
	dir := t.TempDir()
	var n atomic.Int64
	v := newVolume(t, countedFS{must(substrate.OpenDir(dir))(t), &n, nil})
	cfg := testConfig()
	cfg.FlushMessages = 1 << 40
	p := open(t, newSession(t, v), 1, cfg)
	b := rec(0, strings.Repeat("x", 2000))
	for range 500 {
		_, err := p.Append(context.Background(), bytes.Clone(b))
		ok(t, err)
	}
	appendOne(t, p, bytes.Clone(b))
	ok(t, p.Relinquish(context.Background()))
	name := path.Join(p.dir, p.mu.segs[0].id.IndexName())
	ok(t, v.Remove(name))
	for i, most := range []int64{2 << 20, 64 << 10} {
		p = open(t, newSession(t, v), int32(2+i), cfg)
		n.Store(0)
		got, err := p.Cut(context.Background(), At(250), 2100, true)
		ok(t, err)
		got.Region.Release()
		if n.Load() > most {
			t.Errorf("reader %d reads %d bytes", i, n.Load())
		}
		ok(t, p.Abandon(context.Background()))
	}
}
