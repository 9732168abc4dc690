package partition

import (
	"context"
	"errors"
	"fmt"
	"math"

	"kaas.dev/kaas/internal/substrate"
)

// compactWriter writes what compaction keeps of a group of segments.
type compactWriter struct {
	c       *compaction
	base    int64 // of the next segment
	changed bool  // something differs from what is there; before that nothing is written
	made    []*segment
	buf     []byte
	at      int64 // where buf belongs
}

const compactChunk = 1 << 20

func (w *compactWriter) current() *segment {
	if len(w.made) == 0 {
		return nil
	}
	if s := w.made[len(w.made)-1]; !s.ended {
		return s
	}
	return nil
}

func (w *compactWriter) append(ctx context.Context, b batch) error {
	s := w.current()
	if s != nil && (s.size+int64(len(b)) > math.MaxInt32 || b.next()-s.id.Base > math.MaxInt32) {
		if err := w.end(ctx, b.base()); err != nil { // what was compressed anew may be larger
			return err
		}
		s = nil
	}
	if s == nil {
		var err error
		if s, err = w.c.p.makeSegment(w.base); err != nil {
			return fmt.Errorf("make a segment at offset %d: %w", w.base, err)
		}
		w.made, w.at = append(w.made, s), 0
	}
	if len(w.buf)+len(b) > compactChunk {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	w.buf = append(w.buf, b...)
	s.index.add(b, s.id.Base, w.c.p.cfg().IndexIntervalBytes)
	s.size += int64(len(b))
	s.end = b.next()
	if t, ok := w.c.markers[b.base()]; ok && b.attrs()&attrControl != 0 {
		s.aborts.add(t)
	}
	return nil
}

func (w *compactWriter) flush(ctx context.Context) error {
	if len(w.buf) == 0 {
		return ctx.Err()
	}
	if t := w.c.opt.Throttle; t != nil {
		if err := t(ctx, len(w.buf)); err != nil {
			return err
		}
	}
	s := w.current()
	if _, err := s.file.WriteAt(w.buf, w.at); err != nil {
		return fmt.Errorf("write %s at byte %d: %w", w.c.p.file(s.id), w.at, err)
	}
	w.c.st.Written += int64(len(w.buf))
	w.at += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// end makes the current segment durable; it reaches up to an offset.
func (w *compactWriter) end(ctx context.Context, end int64) error {
	s := w.current()
	if s == nil {
		return nil
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if !w.c.p.cfg().breaks.noCompactSync {
		if err := s.file.Datasync(); err != nil {
			return fmt.Errorf("sync %s: %w", w.c.p.file(s.id), err)
		}
	}
	h := s.file
	s.file = nil
	if err := h.Close(); err != nil { // NFS may report a lost write only here
		return fmt.Errorf("close %s: %w", w.c.p.file(s.id), err)
	}
	s.end, s.synced, s.frozen, s.admitted, s.ended = end, s.size, true, true, true
	s.maxTime, s.timed, s.endedAt = s.index.maxTime, true, w.c.plan.now
	w.c.p.writeIndex(s.id, s.index)
	w.c.p.writeTxnIndex(s.id, s.aborts.list)
	s.index = nil
	s.aborts.unload()
	w.base = end
	return nil
}

func (w *compactWriter) finish(ctx context.Context, end int64) error { return w.end(ctx, end) }

// discard closes what is open and, unless a manifest may name them, has the new files
// removed.
func (w *compactWriter) discard(err error) {
	unknown := errors.Is(err, substrate.ErrUnknown) || errors.Is(err, substrate.ErrFenced) || errors.Is(err, context.Canceled)
	p := w.c.p
	p.mu.Lock()
	var open []*handle
	for _, s := range w.made {
		if s.file != nil {
			open = append(open, s.file)
			s.file = nil
		}
		if !unknown || !s.ended {
			p.doomLocked(s.id, 0)
		}
	}
	p.mu.Unlock()
	closeAll(open)
}
