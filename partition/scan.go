package partition

import (
	"context"
	"errors"
	"fmt"
	"io"

	"kaas.dev/kaas/internal/substrate"
)

const scanChunk = 1 << 20

// scanHeaders calls f for the header of each batch between two bytes of a segment, both
// batch boundaries, until f returns false. The batch passed is its header alone.
func (p *Partition) scanHeaders(ctx context.Context, s *segment, pos, limit int64, f func(pos int64, b batch) bool) error {
	buf := make([]byte, min(64<<10, max(limit-pos, 0)))
	from, have := pos, 0 // buf[:have] holds the file from byte from on
	for next := s.id.Base; pos < limit; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if limit-pos < batchHeader {
			return p.damaged(s.id, pos, "the last batch is cut off")
		}
		if pos+batchHeader > from+int64(have) {
			from, have = pos, int(min(int64(len(buf)), limit-pos))
			if err := p.readAt(s, buf[:have], from); err != nil {
				return err
			}
		}
		b := batch(buf[pos-from:][:batchHeader])
		if cause := b.headerFault(next); cause != "" {
			return p.damaged(s.id, pos, cause)
		}
		if pos+b.size() > limit {
			return p.damaged(s.id, pos, "the batch is longer than what the manifest admits")
		}
		if !f(pos, b) {
			return nil
		}
		pos, next = pos+b.size(), b.next()
	}
	return nil
}

// tailScanner walks what a leader appended after its last recovery point, by itself
// untrusted: it ends before the first byte that is not a whole batch with a right
// checksum at the next offset.
type tailScanner struct {
	file   substrate.File
	size   int64 // of the file
	pos    int64 // of the next batch
	next   int64 // its offset
	holes  bool  // offsets may be missing: the segment may have been compacted
	buf    []byte
	off    int    // of pos in buf
	reason string // why it ended
}

// batch returns the next batch, valid until the call after, or nil at the end.
func (t *tailScanner) batch() (batch, error) {
	if t.pos == t.size {
		t.reason = "end of file"
		return nil, nil
	}
	b, err := t.peek(batchHeader)
	if b == nil || err != nil {
		t.reason = "torn within a header"
		return nil, err
	}
	if cause := batch(b).headerFault(t.next); cause != "" || batch(b).base() != t.next && !t.holes {
		t.reason = "no batch of the next offset"
		return nil, nil
	}
	b, err = t.peek(batch(b).size())
	if b == nil || err != nil {
		t.reason = "torn within a batch"
		return nil, err
	}
	if batch(b).sum() != batch(b).crc() {
		t.reason = "checksum"
		return nil, nil
	}
	t.off += len(b)
	t.pos += int64(len(b))
	t.next = batch(b).next()
	return b, nil
}

// beyond looks behind where the tail ended for a whole batch of a later offset, and
// returns its byte, or -1. What a crash tears off has nothing behind it but, after a
// power loss, pages that happened to be written; one flipped bit has all that followed.
func (t *tailScanner) beyond() (int64, error) {
	const most = 8 << 20
	buf := make([]byte, min(t.size-t.pos, most))
	n, err := t.file.ReadAt(buf, t.pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return -1, fmt.Errorf("read at byte %d: %w", t.pos, err)
	}
	for at := 1; at+batchHeader <= n; at++ {
		b := batch(buf[at:n])
		if b.headerFault(t.next+1) != "" || b.size() > int64(len(b)) {
			continue
		}
		if b = b[:b.size()]; b.sum() == b.crc() {
			return t.pos + int64(at), nil
		}
	}
	return -1, nil
}

// peek returns the next n bytes, or nil if the file has fewer.
func (t *tailScanner) peek(n int64) ([]byte, error) {
	if n > t.size-t.pos {
		return nil, nil
	}
	if int64(len(t.buf)-t.off) < n {
		if err := t.fill(n); err != nil {
			return nil, err
		}
	}
	if int64(len(t.buf)-t.off) < n {
		return nil, nil // the file is shorter than its size said
	}
	return t.buf[t.off:][:n], nil
}

func (t *tailScanner) fill(n int64) error {
	want := min(max(n, scanChunk), t.size-t.pos)
	if int64(cap(t.buf)) < want {
		t.buf = make([]byte, want)
	}
	t.buf, t.off = t.buf[:want], 0
	m, err := t.file.ReadAt(t.buf, t.pos)
	t.buf = t.buf[:m]
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read at byte %d: %w", t.pos, err)
	}
	return nil
}
