package partition

import (
	"encoding/binary"
	"math"
	"path"
	"sort"

	"kaas.dev/kaas/internal/substrate"
)

// index is a segment's sparse index. It grows at its end only, so a copy of the value
// stays right. It may be thrown away at any time: a scan of the headers rebuilds it.
type index struct {
	entries []indexEntry
	upto    int64 // bytes of the segment it covers
	lastPos int64 // of the newest entry
	maxTime int64 // of all batches covered
}

// indexEntry points at a batch. Times are those of the batches before it.
type indexEntry struct {
	rel    uint32 // base offset, relative to the segment's
	pos    uint32
	before int64 // largest timestamp of all earlier batches, ms
}

const noTime = math.MinInt64

func newIndex() *index { return &index{maxTime: noTime} }

// add notes a batch that begins where the index ends.
func (x *index) add(b batch, segBase int64, interval int) {
	if x.upto == 0 || x.upto-x.lastPos >= int64(interval) {
		x.entries = append(x.entries, indexEntry{uint32(b.base() - segBase), uint32(x.upto), x.maxTime})
		x.lastPos = x.upto
	}
	x.upto += b.size()
	if b.count() > 0 { // one that compaction has emptied has no record of that time
		x.maxTime = max(x.maxTime, b.maxTime())
	}
}

// floor is a byte at or before the batch that contains the relative offset.
func (x *index) floor(rel int64) int64 {
	i := sort.Search(len(x.entries), func(i int) bool { return int64(x.entries[i].rel) > rel })
	if i == 0 {
		return 0
	}
	return int64(x.entries[i-1].pos)
}

// entryFor points at or before the batch that contains the relative offset.
func (x *index) entryFor(rel int64) indexEntry {
	return x.before(sort.Search(len(x.entries), func(i int) bool { return int64(x.entries[i].rel) > rel }))
}

// entryUpTo points at the last batch known to begin at or before a byte.
func (x *index) entryUpTo(pos int64) indexEntry {
	return x.before(sort.Search(len(x.entries), func(i int) bool { return int64(x.entries[i].pos) > pos }))
}

func (x *index) before(i int) indexEntry {
	if i == 0 {
		return indexEntry{}
	}
	return x.entries[i-1]
}

// fileEntries is the most that an index file holds, so that loading one reads no more
// than 512 KiB.
const fileEntries = 32 << 10

// sparse is every n-th entry, at most fileEntries of them. The first one stays.
func (x *index) sparse() []indexEntry {
	n := (len(x.entries) + fileEntries - 1) / fileEntries
	if n <= 1 {
		return x.entries
	}
	out := make([]indexEntry, 0, fileEntries)
	for i := 0; i < len(x.entries); i += n {
		out = append(out, x.entries[i])
	}
	return out
}

// floorTime is a byte at or before the first batch with a timestamp of at least ts.
func (x *index) floorTime(ts int64) int64 {
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].before >= ts })
	if i == 0 {
		return 0
	}
	return int64(x.entries[i-1].pos)
}

var kindIndex = substrate.Kind{'i', 'n', 'd', 'x'}

type indexBody struct {
	Upto    int64  `msgpack:"upto"`
	MaxTime int64  `msgpack:"max_time"`
	Entries []byte `msgpack:"entries"` // 16 bytes each: 4 offset, 4 position, 8 time
}

func (x *index) encode() ([]byte, error) {
	entries := x.sparse()
	raw := make([]byte, 0, 16*len(entries))
	for _, e := range entries {
		raw = binary.BigEndian.AppendUint32(raw, e.rel)
		raw = binary.BigEndian.AppendUint32(raw, e.pos)
		raw = binary.BigEndian.AppendUint64(raw, uint64(e.before))
	}
	return substrate.EncodeFile(kindIndex, 0, indexBody{x.upto, x.maxTime, raw})
}

// decodeIndex takes only an index of exactly the segment's admitted bytes: one that a
// fenced leader wrote may cover more.
func decodeIndex(file string, b []byte, size int64) (*index, bool) {
	var body indexBody
	if _, err := substrate.DecodeFile(file, kindIndex, b, &body); err != nil || body.Upto != size || len(body.Entries)%16 != 0 {
		return nil, false
	}
	x := &index{upto: body.Upto, maxTime: body.MaxTime}
	last := indexEntry{before: noTime}
	for raw := body.Entries; len(raw) > 0; raw = raw[16:] {
		e := indexEntry{binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:]), int64(binary.BigEndian.Uint64(raw[8:]))}
		if e.rel < last.rel || e.pos < last.pos || e.before < last.before || int64(e.pos) >= size {
			return nil, false
		}
		x.entries, last = append(x.entries, e), e
	}
	return x, true
}

// writeIndex saves the index of an ended segment. It is a convenience: unsynced, never
// replaced, and whatever fails is left for a scan to make up for.
func (p *Partition) writeIndex(id SegmentID, x *index) {
	data, err := x.encode()
	if err != nil {
		return
	}
	f, err := p.v.CreateExclusive(path.Join(p.dir, id.IndexName()))
	if err != nil {
		return
	}
	_, _ = f.WriteAt(data, 0) // a torn one fails its checksum
	_ = f.Close()
}

// saveRebuilt spares the next reader the scan, where there was no file. A damaged one
// stays: nothing is replaced.
func (p *Partition) saveRebuilt(s *segment, x *index) {
	p.mu.Lock()
	whole := p.mu.err == nil && s.ended && x.upto == s.size
	p.mu.Unlock()
	if whole {
		p.writeIndex(s.id, x)
	}
}

func (p *Partition) readIndex(s *segment) (*index, bool) {
	name := path.Join(p.dir, s.id.IndexName())
	b, err := p.v.ReadFile(name)
	if err != nil {
		return nil, false
	}
	return decodeIndex(name, b, s.size)
}
