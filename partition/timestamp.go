package partition

import (
	"context"
	"encoding/binary"
)

// OffsetForTimestamp finds the first record with a timestamp of at least ts
// (milliseconds): its offset, timestamp and leader epoch; offset -1 if there is none. In a
// compressed batch it answers with the batch's first offset.
func (p *Partition) OffsetForTimestamp(ctx context.Context, ts int64) (offset, timestamp int64, leaderEpoch int32, err error) {
	return p.find(ctx, func() (int64, int64, int32, error) { return p.offsetForTimestamp(ctx, ts) })
}

func (p *Partition) offsetForTimestamp(ctx context.Context, ts int64) (offset, timestamp int64, leaderEpoch int32, err error) {
	v, err := p.beginRead(ctx)
	if err != nil {
		return -1, -1, -1, err
	}
	defer p.endRead()
	for i, s := range v.segs {
		if p.older(s, ts) {
			continue
		}
		x, err := p.indexed(ctx, s)
		if err != nil {
			return -1, -1, -1, err
		}
		if x.maxTime < ts {
			continue
		}
		at, err := p.findBatch(ctx, v, i, x.floorTime(ts), func(b batch) bool {
			return b.maxTime() >= ts && b.next() > v.logStart
		})
		if err != nil {
			return -1, -1, -1, err
		}
		if at >= 0 {
			return p.findRecord(s, at, v.limit(i), func(off, t int64) bool { return t >= ts && off >= v.logStart })
		}
	}
	return -1, -1, -1, nil
}

// MaxTimestamp finds the first record with the largest timestamp (KIP-734): its offset,
// timestamp and leader epoch; offset -1 in an empty log. In a compressed batch it answers
// with the batch's first offset.
func (p *Partition) MaxTimestamp(ctx context.Context) (offset, timestamp int64, leaderEpoch int32, err error) {
	return p.find(ctx, func() (int64, int64, int32, error) { return p.maxTimestamp(ctx) })
}

func (p *Partition) maxTimestamp(ctx context.Context) (offset, timestamp int64, leaderEpoch int32, err error) {
	v, err := p.beginRead(ctx)
	if err != nil {
		return -1, -1, -1, err
	}
	defer p.endRead()
	best, bestAt, bestTime := -1, int64(-1), int64(noTime)
	for i, s := range v.segs {
		if best >= 0 && p.older(s, bestTime+1) {
			continue
		}
		x, err := p.indexed(ctx, s)
		if err != nil {
			return -1, -1, -1, err
		}
		if x.maxTime <= bestTime {
			continue
		}
		from := x.floorTime(x.maxTime)
		if i == len(v.segs)-1 {
			from = x.floorTime(bestTime + 1) // its largest may not be committed yet
		}
		err = p.scanHeaders(ctx, s, from, v.limit(i), func(pos int64, b batch) bool {
			if b.maxTime() > bestTime {
				best, bestAt, bestTime = i, pos, b.maxTime()
			}
			return true
		})
		if err != nil {
			return -1, -1, -1, err
		}
	}
	if best < 0 {
		return -1, -1, -1, nil
	}
	return p.findRecord(v.segs[best], bestAt, v.limit(best), func(_, t int64) bool { return t >= bestTime })
}

// findBatch returns the byte of the first batch that is wanted, -1 if there is none.
func (p *Partition) findBatch(ctx context.Context, v view, i int, from int64, want func(batch) bool) (int64, error) {
	at := int64(-1)
	err := p.scanHeaders(ctx, v.segs[i], from, v.limit(i), func(pos int64, b batch) bool {
		if want(b) {
			at = pos
		}
		return at < 0
	})
	return at, err
}

// findRecord looks into the batch at a byte of a segment for the first record that is
// wanted; failing that it answers with the batch.
func (p *Partition) findRecord(s *segment, pos, limit int64, want func(offset, ts int64) bool) (int64, int64, int32, error) {
	head := make(batch, batchHeader)
	if err := p.readAt(s, head, pos); err != nil {
		return -1, -1, -1, err
	}
	switch {
	case head.attrs()&attrLogAppendTime != 0 || head.attrs()&attrCodec != 0:
		return head.base(), head.maxTime(), head.epoch(), nil
	case pos+head.size() > limit:
		return -1, -1, -1, p.damaged(s.id, pos, "the batch is longer than what the manifest admits")
	}
	b := make(batch, head.size())
	if err := p.readAt(s, b, pos); err != nil {
		return -1, -1, -1, err
	}
	for recs := []byte(b[batchHeader:]); len(recs) > 0; {
		delta, offDelta, rest, ok := nextRecord(recs)
		if !ok {
			break
		}
		if off, ts := b.base()+offDelta, b.baseTime()+delta; want(off, ts) {
			return off, ts, b.epoch(), nil
		}
		recs = rest
	}
	return b.base(), b.maxTime(), b.epoch(), nil
}

// nextRecord reads the deltas at the head of a record: length, attributes, timestamp
// delta, offset delta, …; ok is false if it does not parse.
func nextRecord(recs []byte) (tsDelta, offDelta int64, rest []byte, ok bool) {
	n, w := binary.Varint(recs)
	if w <= 0 || n < 1 || n > int64(len(recs)-w) {
		return 0, 0, nil, false
	}
	rec := recs[w:][:n]
	tsDelta, a := binary.Varint(rec[1:])
	if a <= 0 {
		return 0, 0, nil, false
	}
	offDelta, b := binary.Varint(rec[1+a:])
	return tsDelta, offDelta, recs[int64(w)+n:], b > 0
}
