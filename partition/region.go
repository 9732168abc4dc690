package partition

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// Found is what a fetch is answered with.
type Found struct {
	Region           *Region // nil if there is nothing to send; the caller releases it
	HighWatermark    int64
	LastStableOffset int64
	LogStart         int64
	Aborted          []AbortedTxn // as of [Fetched]
}

// Region is whole batches where they lie: a piece of a segment's file that is open and
// will not change. It keeps nothing but the file from being closed, so whoever sends
// it slowly holds neither memory nor the partition.
type Region struct {
	p    *Partition
	s    *segment
	h    *handle // nil once released
	pos  int64
	size int64
	next int64 // an offset above all that it holds
}

// Cut is [Partition.Read] without the bytes: it tells where whole batches from a place
// on lie, in one segment, up to maxBytes and never beyond the high watermark. It reads
// the headers at both ends.
func (p *Partition) Cut(ctx context.Context, at Place, maxBytes int, minOne bool) (out Found, err error) {
	err = again(func() error {
		out, err = p.cut(ctx, at, maxBytes, minOne, p.cutIn)
		return err
	})
	return out, err
}

func (p *Partition) cut(ctx context.Context, at Place, maxBytes int, minOne bool, in cutter) (Found, error) {
	v, err := p.beginRead(ctx)
	if err != nil {
		return Found{}, err
	}
	p.endRead()
	if at.offset >= v.hw.offset || at.offset < v.logStart {
		return in(ctx, v, at, maxBytes, minOne) // without a look at the volume
	}
	return besideWith(ctx, p, func(v view) (Found, error) { return in(ctx, v, at, maxBytes, minOne) },
		func(f Found) { f.Region.Release() })
}

func (p *Partition) cutIn(ctx context.Context, v view, at Place, maxBytes int, minOne bool) (Found, error) {
	out := Found{HighWatermark: v.hw.offset, LastStableOffset: v.stable, LogStart: v.logStart}
	if at.offset < v.logStart || at.offset > v.hw.offset {
		return out, fmt.Errorf("%w: %d is not within %d to %d of %s", kerr.OffsetOutOfRange, at.offset, v.logStart, v.hw.offset, p.name)
	}
	if at.offset == v.hw.offset || maxBytes <= 0 && !minOne {
		return out, nil
	}
	i := slices.Index(v.segs, at.seg)
	if i < 0 || at.pos >= v.limit(i) {
		var err error
		if at, err = p.locate(ctx, v, at.offset); err != nil {
			return out, err
		}
		if i = slices.Index(v.segs, at.seg); i < 0 || at.pos >= v.limit(i) {
			return out, nil
		}
	}
	end, next, err := p.cutEnd(ctx, v, i, at.pos, int64(max(maxBytes, 0)), minOne)
	if err != nil || end == at.pos {
		return out, err
	}
	h, err := p.acquire(at.seg)
	if err == nil {
		out.Region = &Region{p, at.seg, h, at.pos, end - at.pos, next}
	}
	return out, err
}

// cutEnd is where the last batch ends that is wholly within maxBytes from a batch at
// pos on, and an offset that is not below its end.
func (p *Partition) cutEnd(ctx context.Context, v view, i int, pos, maxBytes int64, minOne bool) (end, next int64, err error) {
	s, limit := v.segs[i], v.limit(i)
	if limit-pos <= maxBytes {
		if i+1 < len(v.segs) {
			return limit, v.segs[i+1].id.Base, nil
		}
		return limit, v.hw.offset, nil
	}
	x, err := p.indexed(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	w := p.walk(s, limit)
	defer w.end()
	if e := x.entryUpTo(pos + maxBytes); int64(e.pos) > pos {
		w.startAt(e)
	} else {
		w.pos = pos
	}
	for {
		b, err := w.header()
		if err != nil {
			return 0, 0, err
		}
		if fits := w.pos+b.size() <= pos+maxBytes; !fits && (w.pos > pos || !minOne) {
			return w.pos, b.base(), nil
		} else if !fits {
			return w.pos + b.size(), b.next(), nil
		}
		w.skip(b)
	}
}

// Size is how many bytes the region has.
func (r *Region) Size() int64 { return r.size }

// Bytes reads the region whole, as long as ctx and the volume allow. Errors are those of
// [Partition.Read].
func (r *Region) Bytes(ctx context.Context) ([]byte, error) {
	return beside(ctx, r.p, func(view) ([]byte, error) {
		b := make([]byte, r.size)
		return b, r.ReadAt(b, 0)
	})
}

// Verify reads the region whole, a little at a time, and keeps nothing of it, as long as
// ctx and the volume allow. Errors are those of [Partition.Read].
func (r *Region) Verify(ctx context.Context) error {
	const buffer = 64 << 10
	_, err := beside(ctx, r.p, func(view) (struct{}, error) {
		buf := make([]byte, min(buffer, r.size))
		for at := int64(0); at < r.size; at += buffer {
			if err := r.ReadAt(buf[:min(buffer, r.size-at)], at); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, nil
	})
	return err
}

// ReadAt fills b with the region's bytes from byte off on.
func (r *Region) ReadAt(b []byte, off int64) error { return r.p.readAt(r.s, b, r.pos+off) }

// Trusted is whether the region may be sent without being read first. Where reading a
// file failed under way, an answer was already begun and could not tell; from then on
// the partition's files are read before anything is sent.
func (r *Region) Trusted() bool { return !r.p.distrusted.Load() }

// Distrust tells that the region could not be read.
func (r *Region) Distrust() { r.p.distrusted.Store(true) }

// String names the region for people.
func (r *Region) String() string {
	return fmt.Sprintf("%s bytes %d to %d", r.p.file(r.s.id), r.pos, r.pos+r.size)
}

// File is the region's file and where in it the region begins, if the kernel can send it.
func (r *Region) File() (f substrate.Sendable, pos int64, ok bool) {
	f, ok = r.h.File.(substrate.Sendable)
	return watchedFile{f, r}, r.pos, ok
}

// Release lets go of the file. Further calls do nothing.
func (r *Region) Release() {
	if r != nil && r.h != nil {
		r.p.release(r.h)
		r.h = nil
	}
}

// hangs is how long the volume may take for a piece before its file is distrusted.
const hangs = 10 * time.Second

// watchedFile notices calls that hang: nothing else could tell the next fetch.
type watchedFile struct {
	substrate.Sendable
	r *Region
}

// Sendfile implements [substrate.Sendable].
func (w watchedFile) Sendfile(socket uintptr, off int64, n int) (int, error) {
	t := time.AfterFunc(hangs, w.r.Distrust)
	defer t.Stop()
	return w.Sendable.Sendfile(socket, off, n)
}
