package partition

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
)

// compactConfig compacts whatever is new, into segments of some batches.
func compactConfig() Config {
	cfg := testConfig()
	cfg.SegmentBytes = 600
	cfg.IndexIntervalBytes = 100
	cfg.Cleanup = Cleanup{Compact: true, MinDirtyRatio: 0, DeleteRetention: time.Hour}
	return cfg
}

func compact(t tb, p *Partition) Compacted {
	t.Helper()
	st, err := p.Compact(context.Background(), CompactOptions{Force: true})
	return must(st, err)(t)
}

// survey reads the log from every offset (F-02): each read makes progress, and all of
// them tell the same. It returns the records by offset.
func survey(t tb, p *Partition) map[int64]kv {
	t.Helper()
	out := map[int64]kv{}
	start, hw, _ := p.Offsets()
	for at := start; at < hw; at++ {
		f, err := p.Read(context.Background(), at, 1, true)
		ok(t, err)
		bs := batches(t, f.Records)
		if len(bs) != 1 || bs[0].next() <= at || bs[0].next() > hw {
			t.Fatalf("read at %d of %d to %d gives %d batches", at, start, hw, len(bs))
		}
		var l looked
		it := must(l.records(bs[0]))(t)
		var r record
		n := int32(0)
		for ; it.next(&r); n++ {
			rec := kv{bytes.Clone(r.key), bytes.Clone(r.value), bs[0].timeOf(&r)}
			off := bs[0].base() + r.offset
			if old, there := out[off]; there && !sameKV(old, rec) {
				t.Fatalf("offset %d is %v, and %v", off, old, rec)
			}
			out[off] = rec
		}
		if it.err != nil || n != bs[0].count() {
			t.Fatalf("batch at %d has %d records, says %d: %v", bs[0].base(), n, bs[0].count(), it.err)
		}
	}
	return out
}

func TestCompactionKeepsTheNewest(t *testing.T) { synctest.Test(t, testCompactionKeepsTheNewest) }

func testCompactionKeepsTheNewest(t *testing.T) {
	v := simVolume(t)
	cfg := compactConfig()
	p := open(t, newSession(t, v), 1, cfg)
	all := map[int64]kv{}
	for i := range 60 {
		var recs []kv
		for j := range 3 {
			r := kv{fmt.Appendf(nil, "k%d", (i*3+j)%7), fmt.Appendf(nil, "v%d", i*3+j), int64(i)}
			recs, all[int64(i*3+j)] = append(recs, r), r
		}
		appendOne(t, p, kvBatch(t, uint16(i%5), 1, recs...))
	}
	before := len(committed(t, p).Segments)
	st := compact(t, p)
	got := survey(t, p)
	for off, r := range got {
		if !sameKV(r, all[off]) {
			t.Fatalf("offset %d is %v, was %v", off, r, all[off])
		}
	}
	for off := int64(173); off < 180; off++ {
		if _, there := got[off]; !there {
			t.Errorf("offset %d, the newest of its key, is gone", off)
		}
	}
	m := committed(t, p)
	if len(m.Segments) >= before/2 || len(got) > 40 || m.Cleaned != st.CleanedTo || st.CleanedTo == 0 {
		t.Errorf("%d segments of %d are left, %d records, cleaned to %d: %+v", len(m.Segments), before, len(got), m.Cleaned, st)
	}
	synctest.Wait() // the old files go
	ok(t, p.Relinquish(context.Background()))
	if files := segmentFiles(t, v); len(files) != len(m.Segments) {
		t.Errorf("%d files for %d segments", len(files), len(m.Segments))
	}
	p = open(t, newSession(t, v), 2, cfg)
	abandon(t, p)
	if again := survey(t, p); !maps.EqualFunc(again, got, sameKV) {
		t.Error("after a takeover the log is another")
	}
	// What is clean already is not new.
	if ratio, due, err := p.Dirty(context.Background()); err != nil || ratio >= 1 || !due {
		t.Errorf("share of what is new: %v, due %v, %v", ratio, due, err)
	}
}

// compactModel is what a compacted log must hold.
type compactModel struct {
	t     *rapid.T
	v     *substrate.Volume
	p     *Partition
	cfg   Config
	epoch int32
	all   map[int64]kv
	start int64
	end   int64
	last  map[string]int64 // offset of each key's newest
}

func TestCompactionAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		synctestRun(t, func() {
			m := &compactModel{t: t, v: simVolume(t), cfg: compactConfig(), all: map[int64]kv{}, last: map[string]int64{}}
			m.cfg.SegmentBytes = rapid.Int64Range(300, 2000).Draw(t, "segment.bytes")
			m.cfg.IndexIntervalBytes = rapid.IntRange(1, 500).Draw(t, "index.interval.bytes")
			m.cfg.Cleanup.Delete = true // DeleteRecords is refused otherwise
			m.cfg.Cleanup.RetentionAge, m.cfg.Cleanup.RetentionBytes = -1, -1
			m.cfg.LogAppendTime = rapid.IntRange(0, 3).Draw(t, "append time") == 0
			m.reopen()
			t.Repeat(map[string]func(*rapid.T){
				"append":  func(*rapid.T) { m.append() },
				"compact": func(*rapid.T) { m.compact() },
				"delete": func(*rapid.T) {
					before := rapid.Int64Range(m.start, m.end).Draw(t, "before")
					m.start = must(m.p.DeleteRecords(context.Background(), before))(t)
					ok(t, m.p.Retain(context.Background()))
				},
				"freeze": func(*rapid.T) { ok(t, m.p.freeze(context.Background())) },
				"reopen": func(*rapid.T) {
					if rapid.Bool().Draw(t, "clean") {
						ok(t, m.p.Relinquish(context.Background()))
					} else {
						ok(t, m.p.Abandon(context.Background()))
					}
					m.reopen()
				},
				"": func(*rapid.T) { m.check() },
			})
			ok(t, m.p.Abandon(context.Background()))
		})
	})
}

// synctestRun has f run as it is: time is real, but nothing in the model waits for it.
func synctestRun(_ *rapid.T, f func()) { f() }

func (m *compactModel) reopen() {
	m.epoch++
	m.p = open(m.t, newSession(m.t, m.v), m.epoch, m.cfg)
}

func (m *compactModel) append() {
	for range rapid.IntRange(1, 6).Draw(m.t, "batches") {
		var recs []kv
		base := m.end
		for range rapid.IntRange(1, 4).Draw(m.t, "records") {
			key := fmt.Sprintf("k%d", rapid.IntRange(0, 5).Draw(m.t, "key"))
			var value []byte
			if rapid.IntRange(0, 3).Draw(m.t, "tombstone") > 0 {
				value = fmt.Appendf(nil, "v%d", m.end)
			}
			recs = append(recs, kv{[]byte(key), value, rapid.Int64Range(0, 100).Draw(m.t, "time")})
			m.last[key] = m.end
			m.end++
		}
		b := kvBatch(m.t, rapid.Uint16Range(0, 4).Draw(m.t, "codec"), 1, recs...)
		if rapid.Bool().Draw(m.t, "idempotent") {
			pid := rapid.IntRange(0, 3).Draw(m.t, "producer")
			binary.BigEndian.PutUint64(b[43:], uint64(1000+100*int64(m.epoch)+int64(pid))*1000+uint64(base)) // each its own: sequences are not the matter here
			binary.BigEndian.PutUint16(b[51:], 0)
			binary.BigEndian.PutUint32(b[53:], 0)
			b = reseal(b)
		}
		a, err := m.p.Append(context.Background(), b)
		ok(m.t, err)
		ok(m.t, a.Wait(context.Background()))
		for i, r := range recs {
			if m.cfg.LogAppendTime {
				r.ts = a.LogAppendTime
			}
			m.all[base+int64(i)] = r
		}
	}
}

// compact compacts, now and then with a map that has room for a few keys only.
func (m *compactModel) compact() {
	opt := CompactOptions{Force: true}
	if rapid.Bool().Draw(m.t, "little memory") {
		opt.Memory = rapid.Int64Range(12, 40).Draw(m.t, "slots") * keySlotSize
	}
	_, err := m.p.Compact(context.Background(), opt)
	ok(m.t, err)
}

func (m *compactModel) check() {
	start, hw, _ := m.p.Offsets()
	if start != m.start || hw != m.end {
		m.t.Fatalf("log is from %d to %d, want %d to %d", start, hw, m.start, m.end)
	}
	got := survey(m.t, m.p)
	for off, r := range got {
		if !sameKV(r, m.all[off]) {
			m.t.Fatalf("offset %d is %v, was %v", off, r, m.all[off])
		}
	}
	for key, off := range m.last {
		if _, there := got[off]; !there && off >= m.start {
			m.t.Fatalf("the newest record of %s, offset %d of %d to %d, is gone", key, off, start, hw)
		}
	}
	// Below what is cleaned there is one record a key.
	seen := map[string]int64{}
	for _, off := range slices.Sorted(maps.Keys(got)) {
		if key := string(got[off].key); off < committed(m.t, m.p).Cleaned && off >= m.start {
			if old, there := seen[key]; there {
				m.t.Fatalf("%s is at %d and at %d, cleaned to %d", key, old, off, committed(m.t, m.p).Cleaned)
			}
			seen[key] = off
		}
	}
}

// Tombstones stay for delete.retention.ms after they were first cleaned, then go.
func TestTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := compactConfig()
		cfg.Cleanup.DeleteRetention = 5 * time.Second
		p := open(t, newSession(t, simVolume(t)), 1, cfg)
		abandon(t, p)
		now := time.Now().UnixMilli()
		put := func(key string, value []byte) int64 { // in a segment of its own
			at := appendOne(t, p, kvBatch(t, codecGzip, 1, kv{str(key), value, now - 1e9}))
			ok(t, p.freeze(context.Background()))
			return at
		}
		put("a", str("1"))
		tomb := put("a", nil)
		put("b", str("1"))
		compact(t, p)
		if got := survey(t, p); len(got) != 2 || got[tomb].value != nil || got[tomb].ts != now-1e9 {
			t.Fatalf("after the first pass: %v", got)
		}
		time.Sleep(4 * time.Second)
		put("c", str("1"))
		compact(t, p)
		if _, there := survey(t, p)[tomb]; !there {
			t.Fatal("the tombstone went within delete.retention.ms")
		}
		time.Sleep(2 * time.Second)
		put("d", str("1"))
		compact(t, p)
		if got := survey(t, p); len(got) != 3 {
			t.Fatalf("after the horizon: %v", got)
		}
		// The last of the log: its header stays, for a fetch must get somewhere.
		put("d", nil)
		compact(t, p)
		time.Sleep(6 * time.Second)
		p.mu.Lock()
		p.mu.cleaned = 0 // all of it again
		p.mu.Unlock()
		compact(t, p)
		if got := survey(t, p); len(got) != 2 {
			t.Fatalf("after the horizon of the last: %v", got)
		}
		if off, _, _, err := p.MaxTimestamp(context.Background()); err != nil || off != 2 {
			t.Errorf("an emptied batch counts: latest is %d, %v", off, err)
		}
	})
}

// A producer's last batch keeps its header, with its sequence.
func TestCompactionKeepsProducersLast(t *testing.T) {
	p := open(t, newSession(t, simVolume(t)), 1, compactConfig())
	abandon(t, p)
	put := func(key string, pid int64, seq int32) {
		b := kvBatch(t, 0, 0, kv{str(key), str("v"), 1}, kv{str(key), str("v"), 1})
		binary.BigEndian.PutUint64(b[43:], uint64(pid))
		binary.BigEndian.PutUint16(b[51:], 0)
		binary.BigEndian.PutUint32(b[53:], uint32(seq))
		appendOne(t, p, reseal(b))
	}
	put("a", 7, 0)
	put("a", 7, 2)
	put("a", -1, -1)
	put("b", -1, -1)
	ok(t, p.freeze(context.Background()))
	compact(t, p)
	bs := read(t, p, 0)
	if len(bs) != 3 || bs[0].base() != 2 || bs[0].next() != 4 || bs[0].count() != 0 || bs[0].producer() != 7 || bs[0].sequence() != 2 {
		t.Fatalf("the log is %d batches, the first from %d to %d with %d records of producer %d, sequence %d",
			len(bs), bs[0].base(), bs[0].next(), bs[0].count(), bs[0].producer(), bs[0].sequence())
	}
}

// put writes a batch as the partition itself would a transaction's.
func putTxn(t tb, p *Partition, pid int64, attrs uint16, key, value []byte) int64 {
	t.Helper()
	if attrs&attrControl != 0 {
		a, err := p.WriteMarker(context.Background(), Marker{ProducerID: pid, Commit: bytes.Equal(key, commitKey)})
		ok(t, err)
		ok(t, a.Wait(context.Background()))
		return a.BaseOffset
	}
	b := kvBatch(t, 0, 0, kv{key, value, 1})
	seq := int32(0)
	p.mu.Lock()
	if x := p.mu.producers.byID[pid]; x != nil {
		seq = x.due()
	}
	p.mu.Unlock()
	copy(b[43:57], txnBatch(pid, 0, seq, "x")[43:57])
	binary.BigEndian.PutUint16(b[21:], attrTransactional)
	return appendTxn(t, p, reseal(b))
}

var (
	abortKey  = []byte{0, 0, 0, 0}
	commitKey = []byte{0, 0, 0, 1}
)

// C-01: markers are no keys; one goes only after its transaction's data have, and the
// horizon. Aborted records go, and hide nothing.
func TestCompactionOfTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := compactConfig()
		cfg.SegmentBytes = 1 << 20
		cfg.Cleanup.DeleteRetention = 5 * time.Second
		p := open(t, newSession(t, simVolume(t)), 1, cfg)
		abandon(t, p)
		want := map[int64]string{}
		for i := range int64(20) {
			key := fmt.Appendf(nil, "k%d", i%4)
			at := putTxn(t, p, 100, 0, key, fmt.Appendf(nil, "committed %d", i))
			if i >= 16 {
				want[at] = fmt.Sprintf("committed %d", i)
			}
			putTxn(t, p, 100, attrControl, commitKey, []byte{0, 0, 0, 0, 0, 0})
			putTxn(t, p, 200, 0, key, fmt.Appendf(nil, "aborted %d", i))
			putTxn(t, p, 200, attrControl, abortKey, []byte{0, 0, 0, 0, 0, 0})
		}
		open := putTxn(t, p, 300, 0, str("k1"), str("open"))
		ok(t, p.freeze(context.Background()))
		view := func() (markers int, got map[int64]string) {
			got = map[int64]string{}
			for at := int64(0); at < open; {
				for _, b := range read(t, p, at) {
					at = b.next()
					if b.attrs()&attrControl != 0 {
						markers++
						continue
					}
					for off, r := range kvs(t, b) {
						if b.base() < open {
							got[b.base()+int64(off)] = string(r.value)
						}
					}
				}
			}
			return markers, got
		}
		compact(t, p)
		if n, got := view(); n != 40 || !maps.Equal(got, want) {
			t.Fatalf("first pass: %d markers, %v, want %v", n, got, want)
		}
		if p.mu.cleaned != open {
			t.Fatalf("cleaned to %d, but at %d a transaction is open", p.mu.cleaned, open)
		}
		pass := func() {
			p.mu.Lock()
			p.mu.cleaned = 0
			p.mu.Unlock()
			compact(t, p)
		}
		pass() // finds that their data are gone: the horizon begins
		if n, _ := view(); n != 40 {
			t.Fatalf("second pass: %d markers", n)
		}
		time.Sleep(6 * time.Second)
		pass()
		// Those of the four committed that are left, and that of the last aborted, whose empty
		// batch tells its producer's sequence.
		if n, got := view(); n != 5 || !maps.Equal(got, want) {
			t.Fatalf("after the horizon: %d markers, %v, want %v", n, got, want)
		}
	})
}

func TestCompactionLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := compactConfig()
		cfg.SegmentBytes = 80
		cfg.Cleanup.MinCompactionLag, cfg.Cleanup.MaxCompactionLag = time.Minute, time.Hour
		cfg.Cleanup.MinDirtyRatio = 1
		p := open(t, newSession(t, simVolume(t)), 1, cfg)
		abandon(t, p)
		for range 3 {
			appendOne(t, p, kvBatch(t, 0, 0, kv{str("a"), str("v"), time.Now().UnixMilli()}))
			time.Sleep(40 * time.Second)
		}
		due := func() bool {
			_, due, err := p.Dirty(context.Background())
			return must(due, err)(t)
		}
		if due() {
			t.Error("due although little is new")
		}
		if compact(t, p); committed(t, p).Cleaned != 2 || len(survey(t, p)) != 2 {
			t.Errorf("cleaned to %d, want 2: what is younger than the lag stays", committed(t, p).Cleaned)
		}
		time.Sleep(time.Hour)
		if !due() {
			t.Error("not due although the lag has passed, with the active segment in it")
		}
		if st, err := p.Compact(context.Background(), CompactOptions{}); err != nil || st.CleanedTo != 3 || len(survey(t, p)) != 1 {
			t.Errorf("cleaned to %d, %v", st.CleanedTo, err)
		}
	})
}

// What is damaged is neither copied nor skipped: the pass ends, and the log stays.
func TestCompactionOfDamage(t *testing.T) {
	v := simVolume(t)
	p := open(t, newSession(t, v), 1, compactConfig())
	for i := range 20 {
		appendOne(t, p, kvBatch(t, 0, 0, kv{str("a"), fmt.Appendf(nil, "%d", i), 1}))
	}
	before := committed(t, p)
	p.v = &substrate.Volume{FS: flipFS{FS: v.FS, name: before.Segments[0].String(), at: 100}, NewID: v.NewID, ID: v.ID}
	_, err := p.Compact(context.Background(), CompactOptions{Force: true})
	var d *substrate.DamageError
	if !errors.As(err, &d) || p.Err() != nil {
		t.Fatalf("compaction of a damaged segment: %v; partition: %v", err, p.Err())
	}
	p.v = v
	if m := committed(t, p); len(m.Segments) != len(before.Segments) || m.Cleaned != 0 {
		t.Fatalf("the manifest is now %+v", m)
	}
	if st := compact(t, p); st.Kept == 0 {
		t.Fatalf("after the repair: %+v", st)
	}
	ok(t, p.Relinquish(context.Background()))
}

// flipFS shows one byte of a file wrong.
type flipFS struct {
	substrate.FS
	name   string
	at     int64
	mended *atomic.Bool // nil is never
}

func (f flipFS) Open(name string) (substrate.File, error) {
	file, err := f.FS.Open(name)
	if err == nil && bytes.HasSuffix([]byte(name), []byte(f.name)) && (f.mended == nil || !f.mended.Load()) {
		return flipFile{file, f.at}, nil
	}
	return file, err
}

type flipFile struct {
	substrate.File
	at int64
}

func (f flipFile) ReadAt(b []byte, pos int64) (int, error) {
	n, err := f.File.ReadAt(b, pos)
	if i := f.at - pos; i >= 0 && i < int64(n) {
		b[i] ^= 1
	}
	return n, err
}

// A fenced leader's compaction changes nothing.
func TestFencedCompactionChangesNothing(t *testing.T) {
	v := simVolume(t)
	zombie := open(t, newSession(t, v), 1, compactConfig())
	abandon(t, zombie)
	for i := range 20 {
		appendOne(t, zombie, kvBatch(t, 0, 0, kv{str("a"), fmt.Appendf(nil, "%d", i), 1}))
	}
	p := open(t, newSession(t, v), 2, compactConfig())
	abandon(t, p)
	if _, err := zombie.Compact(context.Background(), CompactOptions{Force: true}); err == nil {
		t.Fatal("a fenced leader compacted")
	}
	if got := survey(t, p); len(got) != 20 {
		t.Fatalf("%d records are left of 20", len(got))
	}
}

func BenchmarkCompact(b *testing.B) {
	v := newVolume(b, must(substrate.OpenDir(b.TempDir()))(b))
	cfg := testConfig()
	cfg.SegmentBytes = 16 << 20
	cfg.FlushMessages = 1000
	cfg.Cleanup = Cleanup{Compact: true}
	p := open(b, newSession(b, v), 1, cfg)
	n := 0
	for range 600 {
		var recs []kv
		for range 1000 {
			recs = append(recs, kv{fmt.Appendf(nil, "key-%d", n*7919%100_000), make([]byte, 100), 1})
			n++
		}
		appendOne(b, p, kvBatch(b, 0, 0, recs...))
	}
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	st := compact(b, p)
	b.ReportMetric(float64(st.Read)/1e6/time.Since(start).Seconds(), "MB/s")
	b.ReportMetric(float64(st.Records)/time.Since(start).Seconds(), "records/s")
	ok(b, p.Relinquish(context.Background()))
}
