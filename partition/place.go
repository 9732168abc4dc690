package partition

import (
	"context"
	"fmt"
	"sort"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Place is where a fetch stands in the log: at the batch that has its offset, or at
// the high watermark. It stays right while the log goes on. A place that is made of an
// offset alone, with [At], is looked up when it is needed.
type Place struct {
	offset int64
	seg    *segment // nil before the first segment, and where it was not looked up
	pos    int64
}

// At is the place of an offset, not looked up yet.
func At(offset int64) Place { return Place{offset: offset} }

// Locate looks an offset up. At the high watermark it reads nothing; elsewhere a few
// KiB of the segment, beside an index that is not in memory. Errors are those of
// [Partition.Read].
func (p *Partition) Locate(ctx context.Context, offset int64) (at Place, err error) {
	err = again(func() error {
		at, err = p.locateOnce(ctx, offset)
		return err
	})
	return at, err
}

func (p *Partition) locateOnce(ctx context.Context, offset int64) (Place, error) {
	v, err := p.beginRead(ctx)
	if err != nil {
		return Place{}, err
	}
	p.endRead()
	if offset >= v.hw.offset || offset < v.logStart {
		return p.locate(ctx, v, offset) // without a look at the volume
	}
	return beside(ctx, p, func(v view) (Place, error) { return p.locate(ctx, v, offset) })
}

func (p *Partition) locate(ctx context.Context, v view, offset int64) (Place, error) {
	if offset < v.logStart || offset > v.hw.offset {
		return Place{}, fmt.Errorf("%w: %d is not within %d to %d of %s", kerr.OffsetOutOfRange, offset, v.logStart, v.hw.offset, p.name)
	}
	i := len(v.segs)
	if offset < v.hw.offset {
		i = max(sort.Search(i, func(i int) bool { return v.segs[i].id.Base > offset })-1, 0)
	}
	for ; i < len(v.segs); i++ {
		pos, err := p.locateIn(ctx, v, i, offset)
		if err != nil || pos >= 0 {
			return Place{offset, v.segs[i], pos}, err
		}
	}
	return Place{offset, v.hw.seg, v.hw.pos}, nil
}

// locateIn returns the byte of the first batch of segment i that reaches offset, -1 if
// there is none: what was there may have been compacted away.
func (p *Partition) locateIn(ctx context.Context, v view, i int, offset int64) (int64, error) {
	s := v.segs[i]
	x, err := p.indexed(ctx, s)
	if err != nil {
		return 0, err
	}
	w := p.walk(s, v.limit(i))
	defer w.end()
	w.startAt(x.entryFor(offset - s.id.Base))
	for w.pos < w.limit {
		b, err := w.header()
		if err != nil {
			return 0, err
		}
		if b.next() > offset {
			return w.pos, nil
		}
		w.skip(b)
	}
	return -1, nil
}

// Ahead is how many committed bytes there are from a place to the high watermark,
// without a look at the volume. ok is false where the place has to be looked up anew,
// or the partition has ended.
func (p *Partition) Ahead(at Place) (bytes int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return 0, false
	}
	return p.aheadUpTo(at, p.mu.hw)
}

// aheadUpTo is how many bytes there are from a place to another. The caller holds mu.
func (p *Partition) aheadUpTo(at Place, hw mark) (bytes int64, ok bool) {
	if at.offset >= hw.offset {
		return 0, true
	}
	counting := false
	for i := len(p.mu.segs) - 1; i >= 0; i-- {
		s, size := p.mu.segs[i], p.mu.segs[i].size
		if s == hw.seg {
			counting, size = true, hw.pos
		}
		switch {
		case !counting:
		case s == at.seg:
			return bytes + size - at.pos, true
		default:
			bytes += size
		}
	}
	return bytes, at.seg == nil
}

// headerWalk goes from batch to batch of a segment, reading little more than headers.
type headerWalk struct {
	p     *Partition
	s     *segment
	pos   int64 // of the batch it stands at
	limit int64
	next  int64 // its offset is this or above
	exact bool  // and not above

	buf  *[]byte
	from int64 // of the file, where buf begins
	have int
}

// walkChunk holds the batches between two entries of an index, mostly.
const walkChunk = 4 << 10

var walkBuffers = sync.Pool{New: func() any { b := make([]byte, walkChunk); return &b }}

func (p *Partition) walk(s *segment, limit int64) *headerWalk {
	return &headerWalk{p: p, s: s, limit: limit, next: s.id.Base, buf: walkBuffers.Get().(*[]byte)}
}

func (w *headerWalk) end() { walkBuffers.Put(w.buf) }

// startAt goes to where an index points. The batch there has to be the one promised.
func (w *headerWalk) startAt(e indexEntry) {
	w.pos, w.next, w.exact = int64(e.pos), w.s.id.Base+int64(e.rel), e.pos > 0
}

// header returns the header of the batch it stands at, valid until the next call.
func (w *headerWalk) header() (batch, error) {
	if w.limit-w.pos < batchHeader {
		return nil, w.p.damaged(w.s.id, w.pos, "the last batch is cut off")
	}
	if w.pos < w.from || w.pos+batchHeader > w.from+int64(w.have) {
		w.from, w.have = w.pos, int(min(walkChunk, w.limit-w.pos))
		if err := w.p.readAt(w.s, (*w.buf)[:w.have], w.from); err != nil {
			w.have = 0
			return nil, err
		}
	}
	b := batch((*w.buf)[w.pos-w.from:][:batchHeader])
	switch cause := b.headerFault(w.next); {
	case cause != "":
		return nil, w.p.damaged(w.s.id, w.pos, cause)
	case w.exact && b.base() != w.next:
		return nil, w.p.damaged(w.s.id, w.pos, "the batch is not the one that the index promised")
	case w.pos+b.size() > w.limit:
		return nil, w.p.damaged(w.s.id, w.pos, "the batch is longer than what the manifest admits")
	}
	return b, nil
}

func (w *headerWalk) skip(b batch) {
	w.pos, w.next, w.exact = w.pos+b.size(), b.next(), false
}
