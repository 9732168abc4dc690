package partition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// segment is a file of the log as this leader knows it. The fields but id and made
// are guarded by Partition.mu, or belong to the goroutine that their comment names.
type segment struct {
	id   SegmentID
	made time.Time // by this leader

	end       int64  // offset after the last batch written
	size      int64  // bytes written
	frozen    bool   // nothing is appended any more
	admitted  bool   // a committed manifest names it
	ended     bool   // a committed manifest has its end
	index     *index // nil until somebody needs it, and again when it was not used for long
	file      *handle
	maxTime   int64 // largest timestamp, where timed says that it is known
	timed     bool
	endedAt   int64 // when it got its end, ms; 0 if that is not known
	wroteAt   int64 // when it was appended to last, ms; 0 if this leader did not
	dropped   bool  // no part of the log any more
	firstTime int64 // largest timestamp of its first batch; 0 if that is not known
	aborts    aborts

	rollFrom int64 // largest timestamp of its first batch, ms; negative if it has none; the writer's

	synced int64 // bytes known to be durable; the committer's
	behind int64 // bytes behind a committed recovery point or end; the committer's
}

// handle is an open file and how many readers are in it.
type handle struct {
	substrate.File
	refs int
	gone bool // to be closed by the last reader
}

// cachedSegments is how many segments besides the newest keep their file open and their
// index in memory (at most 4 MiB a GiB).
const cachedSegments = 8

// acquire returns the segment's file, opening it if need be; release gives it back.
func (p *Partition) acquire(s *segment) (*handle, error) {
	p.mu.Lock()
	if h := s.file; h != nil {
		h.refs++
		p.touch(s)
		p.mu.Unlock()
		return h, nil
	}
	p.mu.Unlock()
	f, err := p.openFile(s.id)
	if err != nil {
		return nil, fmt.Errorf("%w: open %s: %w", kerr.KafkaStorageError, p.file(s.id), err)
	}
	h := &handle{File: f, refs: 1}
	p.mu.Lock()
	if s.file == nil && p.mu.err == nil && !s.dropped {
		s.file = h
		p.touch(s)
	} else {
		h.gone = true // somebody else's is kept, or none any more
	}
	p.mu.Unlock()
	return h, nil
}

// openFile opens a file that the manifest names. A stale handle or a cached absence is
// answered by listing the directory and opening again.
func (p *Partition) openFile(id SegmentID) (substrate.File, error) {
	f, err := p.v.Open(p.file(id))
	for try := 0; err != nil && try < 3; try++ {
		if _, lerr := p.v.ListFresh(p.dir); lerr != nil {
			return nil, errors.Join(err, lerr)
		}
		f, err = p.v.Open(p.file(id))
	}
	return f, err
}

// release closes files that nobody needs, outside of the lock.
func (p *Partition) release(h *handle) {
	p.mu.Lock()
	h.refs--
	drop := p.evict()
	if h.gone && h.refs == 0 {
		drop = append(drop, h)
	}
	p.mu.Unlock()
	closeAll(drop)
}

// discard makes the next reader open the file anew.
func (p *Partition) discard(s *segment, h *handle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.file == h && s.ended {
		s.file, h.gone = nil, true
	}
}

// touch makes s the most recently used. The caller holds mu.
func (p *Partition) touch(s *segment) {
	for i, o := range p.mu.recent {
		if o == s {
			copy(p.mu.recent[i:], p.mu.recent[i+1:])
			p.mu.recent[len(p.mu.recent)-1] = s
			return
		}
	}
	p.mu.recent = append(p.mu.recent, s)
}

// evict takes files and indexes away from the least recently used idle segments beyond
// the bound. One that is not yet synced and ended keeps them. The caller holds mu.
func (p *Partition) evict() (drop []*handle) {
	for i := 0; len(p.mu.recent) > cachedSegments+1 && i < len(p.mu.recent); {
		s := p.mu.recent[i]
		if !s.ended || s.file != nil && s.file.refs > 0 {
			i++
			continue
		}
		if s.file != nil {
			drop = append(drop, s.file)
			s.file = nil
		}
		if s.index != nil {
			s.maxTime, s.timed, s.index = s.index.maxTime, true, nil
		}
		s.aborts.unload()
		p.mu.recent = append(p.mu.recent[:i], p.mu.recent[i+1:]...)
	}
	return drop
}

// closeAll closes files whose data is durable or lost already: an error tells nothing.
func closeAll(hs []*handle) {
	for _, h := range hs {
		_ = h.Close()
	}
}

func (p *Partition) file(id SegmentID) string { return path.Join(p.dir, id.String()) }

// readAt fills b from a segment's admitted bytes. Their absence is damage.
func (p *Partition) readAt(s *segment, b []byte, pos int64) error {
	for try := 0; ; try++ {
		h, err := p.acquire(s)
		if err != nil {
			return err
		}
		n, err := h.ReadAt(b, pos)
		if errors.Is(err, syscall.ESTALE) && try == 0 {
			p.discard(s, h)
			p.release(h)
			continue
		}
		p.release(h)
		switch {
		case n == len(b):
			return nil
		case err == nil || errors.Is(err, io.EOF):
			return p.damaged(s.id, pos+int64(n), "the file ends before what the manifest admits")
		default:
			return fmt.Errorf("%w: read %s at byte %d: %w", kerr.KafkaStorageError, p.file(s.id), pos, err)
		}
	}
}

func (p *Partition) damaged(id SegmentID, pos int64, cause string) error {
	return fmt.Errorf("%w: %w", kerr.KafkaStorageError, &substrate.DamageError{File: p.file(id), Offset: pos, Cause: cause})
}

// indexed returns the segment's index, from its file or by a scan of its headers. Two
// readers may do the same work; one result is kept.
func (p *Partition) indexed(ctx context.Context, s *segment) (index, error) {
	p.mu.Lock()
	if s.index != nil {
		defer p.mu.Unlock()
		p.touch(s)
		return *s.index, nil
	}
	size := s.size
	p.mu.Unlock()
	x, ok := p.readIndex(s)
	if !ok {
		x = newIndex()
		err := p.scanHeaders(ctx, s, 0, size, func(_ int64, b batch) bool {
			x.add(b, s.id.Base, p.cfg().IndexIntervalBytes)
			return true
		})
		if err != nil {
			return index{}, err
		}
		p.saveRebuilt(s, x)
	}
	p.mu.Lock()
	if !s.dropped {
		s.index = x
		p.touch(s)
	}
	drop := p.evict()
	p.mu.Unlock()
	closeAll(drop)
	return *x, nil
}

// older reports, without loading an index, that every record is older than ts.
func (p *Partition) older(s *segment, ts int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.timed && s.maxTime < ts
}
