package partition

import (
	"context"
	"errors"
	"fmt"
	"io"

	"kaas.dev/kaas/internal/substrate"
)

// Throttle has its caller wait until n more bytes may be read or written.
type Throttle func(ctx context.Context, n int) error

// segmentReader reads all batches of an ended segment, one after another and through a
// file of its own, so that what fetches have open stays open. What it returns has a
// right checksum.
type segmentReader struct {
	p        *Partition
	id       SegmentID
	file     substrate.File
	throttle Throttle
	limit    int64 // byte
	end      int64 // offset
	pos      int64 // of the next batch
	next     int64 // the least offset it may have
	buf      []byte
	off      int // of pos in buf
}

func (p *Partition) readWhole(s *segment, throttle Throttle) (*segmentReader, error) {
	f, err := p.openFile(s.id)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", p.file(s.id), err)
	}
	return &segmentReader{p: p, id: s.id, file: f, throttle: throttle, limit: s.size, end: s.end, next: s.id.Base}, nil
}

func (r *segmentReader) close() { _ = r.file.Close() }

// batch returns the next batch, valid until the call after; nil at the end.
func (r *segmentReader) batch(ctx context.Context) (batch, error) {
	if r.pos == r.limit {
		return nil, nil
	}
	head, err := r.peek(ctx, batchHeader)
	if err != nil {
		return nil, err
	}
	if cause := batch(head).headerFault(r.next); cause != "" {
		return nil, r.p.damaged(r.id, r.pos, cause)
	}
	if batch(head).next() > r.end { // no checksum covers the base offset
		return nil, r.p.damaged(r.id, r.pos, "the batch's offsets are beyond the segment's end")
	}
	raw, err := r.peek(ctx, batch(head).size())
	if err != nil {
		return nil, err
	}
	b := batch(raw)
	if b.sum() != b.crc() {
		return nil, r.p.damaged(r.id, r.pos, fmt.Sprintf("the batch says checksum %08x, its bytes give %08x", b.crc(), b.sum()))
	}
	r.off += len(b)
	r.pos += int64(len(b))
	r.next = b.next()
	return b, nil
}

func (r *segmentReader) peek(ctx context.Context, n int64) ([]byte, error) {
	if n > r.limit-r.pos {
		return nil, r.p.damaged(r.id, r.pos, "the batch is longer than what the manifest admits")
	}
	if int64(len(r.buf)-r.off) < n {
		if err := r.fill(ctx, n); err != nil {
			return nil, err
		}
	}
	return r.buf[r.off:][:n:n], nil
}

func (r *segmentReader) fill(ctx context.Context, n int64) error {
	want := min(max(n, scanChunk), r.limit-r.pos)
	if err := r.wait(ctx, int(want)); err != nil {
		return err
	}
	if int64(cap(r.buf)) < want {
		r.buf = make([]byte, want)
	}
	r.buf, r.off = r.buf[:want], 0
	m, err := r.file.ReadAt(r.buf, r.pos)
	switch {
	case int64(m) == want:
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return r.p.damaged(r.id, r.pos+int64(m), "the file ends before what the manifest admits")
	}
	return fmt.Errorf("read %s at byte %d: %w", r.p.file(r.id), r.pos, err)
}

func (r *segmentReader) wait(ctx context.Context, n int) error {
	if r.throttle == nil {
		return ctx.Err()
	}
	return r.throttle(ctx, n)
}
