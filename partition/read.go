package partition

import (
	"context"
	"fmt"
	"math"
	"sort"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// Fetched is what a Read found.
type Fetched struct {
	Records          []byte // whole batches
	HighWatermark    int64
	LastStableOffset int64
	LogStart         int64
	Aborted          []AbortedTxn // that have records among them, by first offset; nil unless asked for
}

// view is what a reader may look at: it stays right while the log goes on.
type view struct {
	segs     []*segment // up to the one the high watermark is in
	hw       mark
	stable   int64
	logStart int64
}

// beginRead returns the view and keeps the partition's files from being closed under
// it until endRead.
func (p *Partition) beginRead(ctx context.Context) (view, error) {
	if err := ctx.Err(); err != nil {
		return view{}, err
	}
	if p.s.IsFenced() {
		p.fail(substrate.ErrFenced)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return view{}, p.mu.err
	}
	p.readers.Add(1)
	return view{p.mu.segs, p.mu.hw, p.mu.stable, p.mu.logStart}.upTo(p.mu.hw), nil
}

// upTo is the view as if the high watermark were at a place.
func (v view) upTo(end mark) view {
	for n := len(v.segs); n > 0 && v.segs[n-1] != end.seg; n-- {
		v.segs = v.segs[:n-1]
	}
	v.hw = end
	return v
}

func (p *Partition) endRead() { p.readers.Done() }

// limit is the byte up to which a segment of the view may be read. All but the last
// are frozen, so their size no longer changes.
func (v view) limit(i int) int64 {
	if i == len(v.segs)-1 {
		return v.hw.pos
	}
	return v.segs[i].size
}

// Read returns whole batches, the first of which is the one that contains offset (or,
// over a hole, the next), up to maxBytes and never beyond the high watermark; none at the
// high watermark itself. With minOne the first batch comes whatever its size.
//
// Errors wrap OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR (with a *substrate.DamageError if
// the bytes are not what was written) or the partition's end. What is returned was
// committed; whether it is still the newest, a Check tells the caller.
func (p *Partition) Read(ctx context.Context, offset int64, maxBytes int, minOne bool) (out Fetched, err error) {
	err = again(func() error {
		out, err = p.read(ctx, offset, maxBytes, minOne, false)
		return err
	})
	return out, err
}

// ReadCommitted is Read below the last stable offset, with the aborted transactions that
// have records in what is returned; their records are there, for the reader to leave out.
func (p *Partition) ReadCommitted(ctx context.Context, offset int64, maxBytes int, minOne bool) (out Fetched, err error) {
	err = again(func() error {
		out, err = p.read(ctx, offset, maxBytes, minOne, true)
		return err
	})
	return out, err
}

func (p *Partition) read(ctx context.Context, offset int64, maxBytes int, minOne, stable bool) (Fetched, error) {
	v, err := p.beginRead(ctx)
	if err != nil {
		return Fetched{}, err
	}
	out, err := p.answer(v, offset)
	p.endRead()
	switch {
	case err != nil || offset == v.hw.offset && !stable:
		return out, err
	case stable && offset >= v.stable:
		out.Aborted = []AbortedTxn{}
		return out, nil
	case stable:
		return beside(ctx, p, func(v view) (Fetched, error) { return p.readStable(ctx, v, offset, maxBytes, minOne) })
	}
	return beside(ctx, p, func(v view) (Fetched, error) { return p.readFrom(ctx, v, offset, maxBytes, minOne) })
}

// answer is a Read's answer without records.
func (p *Partition) answer(v view, offset int64) (Fetched, error) {
	out := Fetched{HighWatermark: v.hw.offset, LastStableOffset: v.stable, LogStart: v.logStart}
	if offset < v.logStart || offset > v.hw.offset {
		return out, fmt.Errorf("%w: %d is not within %d to %d of %s", kerr.OffsetOutOfRange, offset, v.logStart, v.hw.offset, p.name)
	}
	return out, nil
}

func (p *Partition) readFrom(ctx context.Context, v view, offset int64, maxBytes int, minOne bool) (Fetched, error) {
	out, err := p.answer(v, offset)
	if err != nil {
		return out, err
	}
	i := sort.Search(len(v.segs), func(i int) bool { return v.segs[i].id.Base > offset })
	for i = max(i-1, 0); i < len(v.segs); i++ {
		recs, whole, err := p.readSegment(ctx, v, i, offset, maxBytes-len(out.Records), minOne && len(out.Records) == 0)
		if err != nil {
			return out, err
		}
		if out.Records == nil {
			out.Records = recs
		} else {
			out.Records = append(out.Records, recs...)
		}
		if !whole || len(out.Records) >= maxBytes && len(out.Records) > 0 {
			break
		}
	}
	return out, nil
}

// readSegment reads what segment i of the view has from offset on. whole reports that
// it has nothing after that.
func (p *Partition) readSegment(ctx context.Context, v view, i int, offset int64, maxBytes int, minOne bool) (recs []byte, whole bool, err error) {
	s, limit := v.segs[i], v.limit(i)
	x, err := p.indexed(ctx, s)
	if err != nil {
		return nil, false, err
	}
	pos := x.floor(offset - s.id.Base)
	want := min(limit-pos, int64(max(maxBytes, batchHeader)+p.cfg().IndexIntervalBytes))
	if want <= 0 {
		return nil, true, nil
	}
	buf := make([]byte, want)
	if err := p.readAt(s, buf, pos); err != nil {
		return nil, false, err
	}
	skip, err := p.skipTo(s, buf, pos, limit, offset)
	if err != nil {
		return nil, false, err
	}
	if skip < 0 { // a hole, or further on than the index promised: walk there
		pos, err = p.findBatch(ctx, v, i, pos, func(b batch) bool { return b.next() > offset })
		if err != nil || pos < 0 {
			return nil, true, err
		}
		skip, buf = 0, make([]byte, min(limit-pos, int64(max(maxBytes, batchHeader))))
		if err := p.readAt(s, buf, pos); err != nil {
			return nil, false, err
		}
	}
	pos += int64(skip)
	recs, err = p.wholeBatches(s, buf[skip:], pos, limit, maxBytes, minOne)
	return recs, pos+int64(len(recs)) == limit, err
}

// skipTo returns where in buf the first batch that reaches offset begins; -1 if not in it.
func (p *Partition) skipTo(s *segment, buf []byte, pos, limit, offset int64) (int, error) {
	next := s.id.Base
	for at := 0; at+batchHeader <= len(buf); {
		b := batch(buf[at:])
		if cause := b.headerFault(next); cause != "" {
			return 0, p.damaged(s.id, pos+int64(at), cause)
		}
		next = b.next()
		if next > offset {
			return at, nil
		}
		if b.size() > math.MaxInt32 || pos+int64(at)+b.size() > limit {
			return 0, p.damaged(s.id, pos+int64(at), "the batch is longer than what the manifest admits")
		}
		at += int(b.size())
	}
	return -1, nil
}

// wholeBatches cuts buf, which begins with a batch at byte pos, after the last batch
// that is whole and within maxBytes.
func (p *Partition) wholeBatches(s *segment, buf []byte, pos, limit int64, maxBytes int, minOne bool) ([]byte, error) {
	at, next := 0, s.id.Base
	for at+batchHeader <= len(buf) {
		b := batch(buf[at:])
		if cause := b.headerFault(next); cause != "" {
			return nil, p.damaged(s.id, pos+int64(at), cause)
		}
		if pos+int64(at)+b.size() > limit {
			return nil, p.damaged(s.id, pos+int64(at), "the batch is longer than what the manifest admits")
		}
		if end := int64(at) + b.size(); end > int64(len(buf)) || end > int64(maxBytes) {
			break
		}
		at, next = at+int(b.size()), b.next()
	}
	if at > 0 || !minOne {
		return buf[:at], nil
	}
	if len(buf) < batchHeader {
		return nil, p.damaged(s.id, pos, "the last batch is cut off")
	}
	first := make([]byte, batch(buf).size())
	if n := copy(first, buf); n < len(first) {
		if err := p.readAt(s, first[n:], pos+int64(n)); err != nil {
			return nil, err
		}
	}
	return first, nil
}
