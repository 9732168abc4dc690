package partition

import (
	"errors"
	"hash/crc32"
	"io/fs"
	"path"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// index checks an ended segment's index file, and returns what it says. Indexes are not
// synced, and none is replaced: one that is torn, damaged or of other bytes is never used.
func (c *filesCheck) index(s Segment, there map[string]bool) *index {
	if s.open() || !there[s.IndexName()] {
		return nil
	}
	name := path.Join(c.dir, s.IndexName())
	b, err := c.v.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its segment is being removed
	}
	if err != nil {
		c.fault(metalog.KindUnreadable, name, "%v", err)
		return nil
	}
	var body indexBody
	if _, err := substrate.DecodeFile(name, kindIndex, b, &body); err != nil {
		if torn(b) {
			c.note(KindIndexTorn, name, "ends early: its writer ended before it was whole")
		} else {
			c.fault(KindIndex, name, "%v", err)
		}
		return nil
	}
	if body.Upto > s.Size {
		c.note(KindIndexTorn, name, "is of %d bytes, where %d exist: a leader wrote it that was fenced", body.Upto, s.Size)
		return nil
	}
	x, ok := decodeIndex(name, b, s.Size)
	if !ok {
		c.fault(KindIndex, name, "is of %d of the segment's %d bytes, or not in order", body.Upto, s.Size)
	}
	return x
}

// torn reports a file whose first bytes are all that was written.
func torn(b []byte) bool {
	if len(b) < substrate.FrameHeader {
		return true
	}
	_, err := substrate.DecodeFrame("", kindIndex, b)
	var d *substrate.DamageError
	return errors.As(err, &d) && d.Offset == int64(len(b))
}

// txnIndex checks a segment's list of aborted transactions against what the manifest has
// of it. More may follow in the file, where a fenced leader wrote it.
func (c *filesCheck) txnIndex(s Segment, there map[string]bool) {
	if s.open() || !there[s.TxnIndexName()] {
		return
	}
	name := path.Join(c.dir, s.TxnIndexName())
	b, err := c.v.ReadFile(name)
	sum := s.Aborted.value()
	size := sum.Count * abortedSize
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.fault(metalog.KindUnreadable, name, "%v", err)
	case int64(len(b)) < size:
		c.note(KindIndexTorn, name, "has %d of %d bytes: its writer ended before it was whole", len(b), size)
	case crc32.Checksum(b[:size], castagnoli) != sum.CRC:
		c.fault(KindTxnIndex, name, "its first %d transactions have another checksum than the manifest has", sum.Count)
	}
}

// indexWalk compares an index with the batches that are there.
type indexWalk struct {
	entries []indexEntry
	maxTime int64
	wrong   string
}

// batch is told of each batch of the segment in order.
func (w *indexWalk) batch(pos, rel int64, b batch) {
	if len(w.entries) > 0 && w.wrong == "" {
		switch e := w.entries[0]; {
		case int64(e.pos) > pos:
		case int64(e.pos) < pos:
			w.wrong = "points into a batch"
		case int64(e.rel) != rel || e.before != w.maxTime:
			w.wrong = "does not have the offset or the time of the batch that it points at"
		default:
			w.entries = w.entries[1:]
		}
	}
	if b.count() > 0 {
		w.maxTime = max(w.maxTime, b.maxTime())
	}
}

// end is what is wrong with the index, or nothing.
func (w *indexWalk) end() string {
	if w.wrong == "" && len(w.entries) > 0 {
		return "points behind the last batch"
	}
	return w.wrong
}
