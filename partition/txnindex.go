package partition

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/crc32"
	"path"
	"slices"
)

// AbortedTxn is a transaction that was aborted: its records are at offsets from First to
// below Last, which is its marker's. Stable is what the last stable offset became with it.
type AbortedTxn struct {
	Producer, First, Last, Stable int64
}

// A segment's .txnindex lists the aborted transactions whose markers the segment holds,
// in the order of the markers, 34 bytes each, big-endian, as Kafka's does:
//
//	0  2  version, 0        10  8  first offset   26  8  last stable offset
//	2  8  producer ID       18  8  marker's offset
//
// It has no checksum, so the manifest has one, and a count: a file that is not what that
// says is as good as none, and none is made up for by walking the segment's headers.
const abortedSize = 34

func (t AbortedTxn) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, 0)
	for _, n := range []int64{t.Producer, t.First, t.Last, t.Stable} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func readAborted(b []byte) AbortedTxn {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	return AbortedTxn{at(2), at(10), at(18), at(26)}
}

// AbortedSum is what a manifest knows of a segment's aborted transactions. It may be those
// of the segment's first bytes only.
type AbortedSum struct {
	Count int64  `msgpack:"n" json:"count"`
	From  int64  `msgpack:"from" json:"from"` // no record of theirs, nor of what was open beside them, is below
	CRC   uint32 `msgpack:"crc" json:"crc"`   // CRC32C of their entries in the index
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *AbortedSum) add(t AbortedTxn) {
	from := min(t.First, t.Stable)
	if s.Count > 0 {
		from = min(from, s.From)
	}
	var buf [abortedSize]byte
	*s = AbortedSum{s.Count + 1, from, crc32.Update(s.CRC, castagnoli, t.append(buf[:0]))}
}

func sumOf(list []AbortedTxn) (s AbortedSum) {
	for _, t := range list {
		s.add(t)
	}
	return s
}

// noted is a sum for a manifest: nil where there is nothing.
func (s AbortedSum) noted() *AbortedSum {
	if s.Count == 0 {
		return nil
	}
	return &s
}

func (s *AbortedSum) value() AbortedSum {
	if s == nil {
		return AbortedSum{}
	}
	return *s
}

// aborts are a segment's aborted transactions. Partition.mu guards them.
type aborts struct {
	sum  AbortedSum
	list []AbortedTxn // grows at its end only
	away bool         // the list is not in memory: sum has to do
}

func (a *aborts) add(t AbortedTxn) {
	a.list = append(a.list, t)
	a.sum.add(t)
}

// unload frees what can be loaded again.
func (a *aborts) unload() {
	if a.sum.Count > 0 {
		a.list, a.away = nil, true
	}
}

// summed are the aborts that a manifest tells of.
func summed(s *AbortedSum) aborts {
	return aborts{sum: s.value(), away: s != nil}
}

// noteMarker lists the transaction that the marker at an offset has aborted, if it has.
func (ts *transactions) noteMarker(a *aborts, at int64) {
	if len(ts.aborting) > 0 && ts.aborting[0].Last == at {
		a.add(ts.aborting[0])
		if ts.aborting = ts.aborting[1:]; len(ts.aborting) == 0 {
			ts.aborting = nil
		}
	}
}

// abortedBetween are the aborted transactions that have records from one offset to below
// another, by first offset. Their markers may be anywhere behind.
func (p *Partition) abortedBetween(ctx context.Context, v view, from, to int64) ([]AbortedTxn, error) {
	out := []AbortedTxn{}
	for _, s := range p.withAborts(v, from, to) {
		list, err := p.abortsOf(ctx, v, s)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if t.Last >= from && t.First < to {
				out = append(out, t)
			}
		}
	}
	slices.SortFunc(out, func(a, b AbortedTxn) int { return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last)) })
	return out, nil
}

// withAborts are the segments of a view whose lists have to be looked at.
func (p *Partition) withAborts(v view, from, to int64) (out []*segment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range v.segs {
		if s.end > from && s.aborts.sum.Count > 0 && s.aborts.sum.From < to {
			out = append(out, s)
		}
	}
	return out
}

// abortsOf is a segment's list, from memory, its file or its headers.
func (p *Partition) abortsOf(ctx context.Context, v view, s *segment) ([]AbortedTxn, error) {
	p.mu.Lock()
	list, sum, away := s.aborts.list, s.aborts.sum, s.aborts.away
	p.mu.Unlock()
	if !away {
		return list, nil
	}
	list, ok := p.readTxnIndex(s.id, sum)
	if !ok {
		var err error
		if list, err = p.findAborted(ctx, v, s, sum.From); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	if !s.dropped {
		s.aborts.list, s.aborts.away = list, false
		p.touch(s)
	}
	drop, whole := p.evict(), s.ended && p.mu.err == nil && sumOf(list) == sum
	p.mu.Unlock()
	closeAll(drop)
	if !ok && whole {
		p.writeTxnIndex(s.id, list)
	}
	return list, nil
}

func (p *Partition) readTxnIndex(id SegmentID, sum AbortedSum) ([]AbortedTxn, bool) {
	b, err := p.v.ReadFile(path.Join(p.dir, id.TxnIndexName()))
	size := sum.Count * abortedSize
	// More may follow what the manifest admits, where a fenced leader wrote the file.
	if err != nil || int64(len(b)) < size || crc32.Checksum(b[:size], castagnoli) != sum.CRC {
		return nil, false
	}
	list := make([]AbortedTxn, 0, sum.Count)
	for b = b[:size]; len(b) > 0; b = b[abortedSize:] {
		list = append(list, readAborted(b))
	}
	return list, true
}

// writeTxnIndex saves the list of an ended segment. As with its index, whatever fails is
// made up for.
func (p *Partition) writeTxnIndex(id SegmentID, list []AbortedTxn) {
	if len(list) == 0 {
		return
	}
	data := make([]byte, 0, len(list)*abortedSize)
	for _, t := range list {
		data = t.append(data)
	}
	f, err := p.v.CreateExclusive(path.Join(p.dir, id.TxnIndexName()))
	if err != nil {
		return
	}
	_, _ = f.WriteAt(data, 0)
	_ = f.Close()
}

// saveAborted is writeTxnIndex for a segment that this leader has ended.
func (p *Partition) saveAborted(s *segment) {
	p.mu.Lock()
	list := s.aborts.list
	p.mu.Unlock()
	p.writeTxnIndex(s.id, list)
}

// findAborted makes a segment's list from the headers of the log, from the offset on at
// which the first of its transactions may have begun.
func (p *Partition) findAborted(ctx context.Context, v view, s *segment, from int64) (out []AbortedTxn, err error) {
	open := map[int64]int64{}
	for i, o := range v.segs {
		if o.id.Base > s.id.Base {
			break
		}
		if i+1 < len(v.segs) && v.segs[i+1].id.Base <= from {
			continue
		}
		var fault error
		err := p.scanHeaders(ctx, o, 0, v.limit(i), func(pos int64, b batch) bool {
			switch {
			case b.next() <= from || b.attrs()&attrTransactional == 0:
			case b.attrs()&attrControl == 0:
				if _, there := open[b.producer()]; !there {
					open[b.producer()] = b.base()
				}
			default:
				first, there := open[b.producer()]
				delete(open, b.producer())
				abort := false
				if there && o == s {
					abort, fault = p.isAbort(s, pos, b)
				}
				if abort {
					out = append(out, AbortedTxn{b.producer(), first, b.base(), stableBeside(open, b.next())})
				}
			}
			return fault == nil
		})
		if err = cmp.Or(err, fault); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stableBeside is the least first offset of what is open, or an offset if nothing is.
func stableBeside(open map[int64]int64, next int64) int64 {
	least := next
	for _, first := range open {
		least = min(least, first)
	}
	return least
}

// isAbort reads a marker.
func (p *Partition) isAbort(s *segment, pos int64, head batch) (bool, error) {
	b := make(batch, head.size())
	if err := p.readAt(s, b, pos); err != nil {
		return false, err
	}
	m, ok := b.marker()
	return ok && !m.Commit, nil
}
