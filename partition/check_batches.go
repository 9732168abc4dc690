package partition

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// batches reads the batches of a segment: those that exist, each against its checksum, its
// neighbours, the leader epochs of the manifest and the segment's end, and those past the
// recovery point of a segment without an end, which a takeover would adopt.
func (c *filesCheck) batches(name string, f substrate.File, s Segment, whole, size int64, x *index) {
	r := newPieces(f, c.opt.Read)
	defer r.end()
	idx := &indexWalk{maxTime: noTime}
	if x != nil {
		idx.entries = x.entries
	}
	at, err := r.walk(c.ctx.Err, 0, whole, s.Base, func(pos int64, b batch) string {
		idx.batch(pos, b.base()-s.Base, b)
		return c.wrongEpoch(b)
	})
	end := s.End
	if s.open() {
		end = c.m.Recovery.Offset
	}
	switch {
	case err != nil:
		c.unreadable(name, err)
		return
	case at.wrong != "":
		c.fault(KindSegment, name, "damaged at byte %d, near offset %d: %s", at.pos, at.next, at.wrong)
		return
	case at.next > end:
		c.fault(KindSegment, name, "damaged before byte %d: its batches go to offset %d, the manifest has %d", at.pos, at.next, end)
		return
	}
	if x != nil {
		if wrong := idx.end(); wrong != "" {
			c.fault(KindIndex, name[:len(name)-len(logExt)]+indexExt, "%s", wrong)
		}
	}
	if s.open() {
		c.tail(name, f, r, whole, size)
	}
}

// tail looks at what the owner has appended past its recovery point.
func (c *filesCheck) tail(name string, f substrate.File, r *pieces, from, size int64) {
	next := c.m.Recovery.Offset
	at, err := r.walk(c.ctx.Err, from, size, next, func(_ int64, b batch) string {
		if b.base() != next { // what a takeover does not go on from
			return "no batch of the next offset"
		}
		next = b.next()
		return ""
	})
	if err != nil {
		c.unreadable(name, err)
		return
	}
	if at.pos == size {
		return
	}
	t := &tailScanner{file: f, size: size, pos: at.pos, next: at.next}
	beyond, err := t.beyond()
	switch {
	case err != nil:
		c.unreadable(name, err)
	case beyond >= 0:
		c.fault(KindTail, name, "damaged at byte %d, near offset %d: %s, and a whole batch follows at byte %d", at.pos, at.next, at.wrong, beyond)
	case !c.opt.Living:
		c.note(KindTorn, name, "%d bytes at its end are no whole batch: their writer ended before", size-at.pos)
	}
}

func (c *filesCheck) unreadable(name string, err error) {
	if c.ctx.Err() == nil {
		c.fault(metalog.KindUnreadable, name, "%v", err)
	}
}

// wrongEpoch compares a batch's leader epoch, which no checksum covers, with the manifest.
func (c *filesCheck) wrongEpoch(b batch) string {
	for i := len(c.m.Epochs) - 1; i >= 0; i-- {
		if e := c.m.Epochs[i]; e.Start <= b.base() {
			if int64(e.Epoch) != int64(b.epoch()) {
				return fmt.Sprintf("the batch is of leader epoch %d, the offset of %d", b.epoch(), e.Epoch)
			}
			return ""
		}
	}
	return "" // below the log's start
}

// pieceSize is what is in memory of a segment that is checked, however large its batches.
const pieceSize = 256 << 10

var pieceBuffers = sync.Pool{New: func() any { b := make([]byte, pieceSize); return &b }}

// pieces reads a file forwards, a piece at a time.
type pieces struct {
	f    substrate.File
	read func(n int)
	buf  *[]byte
	from int64 // of the file, where buf begins
	have int
}

func newPieces(f substrate.File, read func(int)) *pieces {
	return &pieces{f: f, read: read, buf: pieceBuffers.Get().(*[]byte)}
}

func (r *pieces) end() { pieceBuffers.Put(r.buf) }

// at returns up to n bytes from byte pos on, at least least of them, or nil where the
// file has fewer. They are valid until the next call.
func (r *pieces) at(pos, limit int64, least, n int) ([]byte, error) {
	if off := pos - r.from; off < 0 || off+int64(least) > int64(r.have) {
		r.from, r.have = pos, 0
		m, err := r.f.ReadAt((*r.buf)[:min(pieceSize, limit-pos)], pos)
		if r.have = m; err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read at byte %d: %w", pos, err)
		}
		if r.read != nil {
			r.read(m)
		}
	}
	have := (*r.buf)[pos-r.from : r.have]
	if len(have) < least {
		return nil, nil
	}
	return have[:min(n, len(have))], nil
}

// sum is the checksum of n bytes from byte pos on. ok is false where the file ends before.
func (r *pieces) sum(pos, n int64) (sum uint32, ok bool, err error) {
	for n > 0 {
		b, err := r.at(pos, pos+n, 1, int(min(n, pieceSize)))
		if b == nil || err != nil {
			return 0, false, err
		}
		sum = crc32.Update(sum, castagnoli, b)
		pos, n = pos+int64(len(b)), n-int64(len(b))
	}
	return sum, true, nil
}

// ended is where a walk has ended, and why if that is before its limit.
type ended struct {
	pos, next int64
	wrong     string
}

// walk goes over the batches between two bytes, the first one's offset at or above next.
// It calls f with the header of each, which says what is wrong with it, or nothing.
func (r *pieces) walk(stop func() error, pos, limit, next int64, f func(pos int64, b batch) string) (ended, error) {
	at := ended{pos: pos, next: next}
	for at.pos < limit {
		if err := stop(); err != nil {
			return at, err
		}
		if limit-at.pos < batchHeader {
			at.wrong = "torn within a header"
			return at, nil
		}
		raw, err := r.at(at.pos, limit, batchHeader, batchHeader)
		if err != nil {
			return at, err
		}
		if raw == nil {
			at.wrong = "the file ends within a header"
			return at, nil
		}
		var head [batchHeader]byte // f and sum come after the buffer has moved on
		b := batch(head[:copy(head[:], raw)])
		if at.wrong = b.headerFault(at.next); at.wrong != "" {
			return at, nil
		}
		if b.size() > limit-at.pos {
			at.wrong = "torn within a batch"
			return at, nil
		}
		sum, ok, err := r.sum(at.pos+crcFrom, b.size()-crcFrom)
		switch {
		case err != nil:
			return at, err
		case !ok:
			at.wrong = "the file ends within a batch"
		case sum != b.crc():
			at.wrong = "checksum"
		default:
			at.wrong = f(at.pos, b)
		}
		if at.wrong != "" {
			return at, nil
		}
		at.pos, at.next = at.pos+b.size(), b.next()
	}
	return at, nil
}
