package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// Appended is a batch that has its offset and is on its way to the volume.
type Appended struct {
	BaseOffset     int64
	LogAppendTime  int64 // milliseconds, or -1 where the topic keeps the producer's time
	LogStartOffset int64

	p         *Partition
	committed chan struct{}
}

// Wait returns nil when the batch is committed. ctx's error tells nothing about the
// batch; any other means that it was not acknowledged, and may be there or not.
func (a *Appended) Wait(ctx context.Context) error {
	select {
	case <-a.committed:
		return nil
	case <-a.p.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-a.committed: // before the end
		return nil
	default:
		return a.p.Err()
	}
}

// Append validates one record batch, gives it its offsets in place and queues it for
// the volume. It does no I/O. The order of calls is the order of offsets.
//
// The buffer is the partition's from here on: the caller neither changes nor reuses it
// before Wait has returned nil. Errors wrap a *kerr.Error, and then nothing is stored.
//
// What an idempotent producer has sent before, as one of its last five batches, is not
// stored again: it is answered as it was, when it is committed.
//
// A transactional batch is stored only where its producer's transaction is open; see
// [Partition.AppendTxn].
func (p *Partition) Append(ctx context.Context, data []byte) (*Appended, error) {
	return p.append(ctx, data, 0)
}

func (p *Partition) append(ctx context.Context, data []byte, g Guard) (*Appended, error) {
	if err := p.mayAppend(ctx); err != nil {
		return nil, err
	}
	cfg := p.cfg()
	b := batch(data)
	if err := p.validate(cfg, b); err != nil {
		return nil, fmt.Errorf("append to %s: %w", p.name, err)
	}
	b, err := p.inspect(cfg, b)
	if err != nil {
		return nil, fmt.Errorf("append to %s: %w", p.name, err)
	}
	if cfg.Room != nil { // last: what is refused takes no room from others
		if err := cfg.Room(len(b)); err != nil {
			return nil, fmt.Errorf("append to %s: %w", p.name, err)
		}
	}
	a := &Appended{p: p, LogAppendTime: -1}
	if cfg.LogAppendTime {
		a.LogAppendTime = cfg.Now().UnixMilli()
		b.stamp(a.LogAppendTime)
	}
	return a, p.enqueue(a, b, func() (bool, error) { return p.admit(a, b, g) })
}

// WriteMarker ends a producer's transaction with a marker, which is committed as any
// batch. Errors wrap INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED where a
// successor of its sender has been here, or are those of [Partition.Append]. Where there
// is nothing to end it is written all the same: who sends one may send it again. It is
// taken on a volume that is too full for records, for it is small, and others wait for it.
func (p *Partition) WriteMarker(ctx context.Context, m Marker) (*Appended, error) {
	if err := p.mayAppend(ctx); err != nil {
		return nil, err
	}
	if m.ProducerID < 0 || m.ProducerEpoch < 0 {
		return nil, fmt.Errorf("marker for %s: %w: producer %d with epoch %d", p.name, kerr.InvalidRequest, m.ProducerID, m.ProducerEpoch)
	}
	a := &Appended{p: p, LogAppendTime: -1}
	b := m.batch(p.cfg().Now().UnixMilli())
	if p.cfg().LogAppendTime {
		a.LogAppendTime = b.maxTime()
		b.stamp(a.LogAppendTime)
	}
	return a, p.enqueue(a, b, func() (bool, error) {
		err := p.mu.producers.judgeMarker(m)
		if err == nil {
			p.mu.producers.breakGuard(m)
		}
		return false, err
	})
}

func (p *Partition) mayAppend(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if p.s.IsFenced() {
		p.fail(substrate.ErrFenced)
	}
	return nil
}

// enqueue is the point that orders the write, and so where the offset is given and admit
// judges a producer's sequence.
func (p *Partition) enqueue(a *Appended, b batch, admit func() (again bool, err error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.mu.err != nil:
		return p.mu.err
	case p.mu.closing:
		return p.classify(ErrRelinquished)
	case p.mu.next > math.MaxInt64-int64(b.count()):
		return fmt.Errorf("%w: %s has no offsets left", kerr.KafkaStorageError, p.name)
	}
	if b.producer() >= 0 {
		if again, err := admit(); again || err != nil {
			return err
		}
	}
	a.BaseOffset, a.LogStartOffset = p.mu.next, p.mu.logStart
	b.place(a.BaseOffset, int32(p.epoch))
	p.mu.next += int64(b.count())
	if b.producer() >= 0 {
		p.noteAppend(b)
	}
	p.mu.queue = append(p.mu.queue, b)
	if p.mu.group == nil {
		p.mu.group = make(chan struct{})
		p.mu.flights = append(p.mu.flights, flight{committed: p.mu.group})
		p.mu.open++
		p.startWatch()
	}
	p.mu.flights[len(p.mu.flights)-1].end = p.mu.next
	a.committed = p.mu.group
	if !p.mu.writing {
		p.mu.writing = true
		p.wg.Go(p.runWriter)
	}
	return nil
}

// runWriter writes what is queued until nothing is.
func (p *Partition) runWriter() {
	for {
		p.mu.Lock()
		p.freezeLocked()
		queue, group := p.mu.queue, p.mu.group
		if len(queue) == 0 || p.mu.err != nil {
			p.mu.writing = false
			if p.mu.closing {
				p.startCommitter()
			}
			p.mu.Unlock()
			return
		}
		p.mu.queue, p.mu.group = p.spare[:0], nil
		p.mu.Unlock()

		if err := p.write(queue); err != nil {
			p.fail(err)
			continue
		}
		clear(queue)
		p.spare = queue
		p.mu.Lock()
		p.mu.pending = append(p.mu.pending, group)
		p.mu.written = mark{p.active.end, p.active, p.active.size}
		p.startCommitter()
		p.mu.Unlock()
	}
}

// write appends batches to the log, rolling where it must.
func (p *Partition) write(queue [][]byte) error {
	for cfg := p.cfg(); len(queue) > 0; {
		if p.full(cfg, queue[0]) {
			if err := p.roll(batch(queue[0]).base()); err != nil {
				return err
			}
		}
		if p.active.size == 0 {
			p.active.rollFrom = batch(queue[0]).maxTime()
		}
		n, size := 1, p.active.size+int64(len(queue[0]))
		for n < len(queue) && size+int64(len(queue[n])) <= cfg.SegmentBytes && !p.active.lateFor(queue[n], cfg) {
			size += int64(len(queue[n]))
			n++
		}
		if err := p.cfg().Recovery.take(p, size-p.active.size); err != nil {
			return err
		}
		if err := p.writeRun(queue[:n]); err != nil {
			return fmt.Errorf("write %s at byte %d: %w", p.file(p.active.id), p.active.size, err)
		}
		p.wrote(queue[:n])
		queue = queue[n:]
	}
	return nil
}

// full reports whether b belongs into a new segment.
func (p *Partition) full(cfg *Config, b batch) bool {
	s := p.active
	if s == nil {
		return true
	}
	return s.size > 0 && (s.size+int64(len(b)) > cfg.SegmentBytes ||
		b.next()-s.id.Base > math.MaxInt32 || s.lateFor(b, cfg) ||
		s.rollFrom < 0 && cfg.Now().Sub(s.made) > cfg.SegmentAge)
}

// lateFor reports whether segment.ms lies between the segment's first batch and b, as
// Kafka counts it: by what the records say.
func (s *segment) lateFor(b batch, cfg *Config) bool {
	return s.rollFrom >= 0 && b.maxTime() > s.rollFrom && b.maxTime()-s.rollFrom > cfg.SegmentAge.Milliseconds()
}

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 256<<10); return &b }}

// writeRun writes batches one after another, small ones together.
func (p *Partition) writeRun(run [][]byte) error {
	pos := p.active.size
	if len(run) == 1 {
		_, err := p.active.file.WriteAt(run[0], pos)
		return err
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	b := (*buf)[:0]
	put := func(data []byte) error {
		_, err := p.active.file.WriteAt(data, pos)
		pos += int64(len(data))
		return err
	}
	for _, r := range run {
		if len(b)+len(r) > cap(b) && len(b) > 0 {
			if err := put(b); err != nil {
				return err
			}
			b = b[:0]
		}
		if len(r) > cap(b) {
			if err := put(r); err != nil {
				return err
			}
			continue
		}
		b = append(b, r...)
	}
	if len(b) == 0 {
		return nil
	}
	return put(b)
}

// wrote notes what the active segment holds now.
func (p *Partition) wrote(run [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.active
	s.wroteAt = p.cfg().Now().UnixMilli()
	for _, r := range run {
		s.index.add(r, s.id.Base, p.cfg().IndexIntervalBytes)
		s.size += int64(len(r))
		s.end = batch(r).next()
		if batch(r).attrs()&attrControl != 0 {
			p.mu.producers.txns.noteMarker(&s.aborts, batch(r).base())
		}
	}
}

// roll freezes the active segment and makes a new one. The committer does the rest:
// sync the old, publish a manifest that names the new, Check (F10).
func (p *Partition) roll(base int64) error {
	s, err := p.makeSegment(base)
	if err != nil {
		return fmt.Errorf("make a segment of %s at offset %d: %w", p.name, base, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.active != nil {
		p.active.frozen = true
	}
	p.active = s
	p.mu.segs = append(p.mu.segs[:len(p.mu.segs):len(p.mu.segs)], s)
	p.touch(s)
	return nil
}

// makeSegment creates a file under a name that nobody used before (rule 3: the epoch is
// ours). A name whose creation has no definite answer is left behind for the next.
func (p *Partition) makeSegment(base int64) (*segment, error) {
	for try := 0; ; try++ {
		s := &segment{id: SegmentID{base, p.epoch, p.gen.Add(1) - 1}, made: p.cfg().Now(), end: base, index: newIndex()}
		f, err := p.v.CreateExclusive(p.file(s.id))
		if err != nil {
			if try == 4 || !errors.Is(err, syscall.EEXIST) && substrate.IsFull(err) || p.ctx.Err() != nil {
				return nil, err
			}
			continue
		}
		if !p.cfg().breaks.noDirSync {
			err = p.v.SyncDir(p.dir)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		s.file = &handle{File: f}
		return s, nil
	}
}
