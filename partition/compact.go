package partition

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// CompactOptions bound a compaction.
type CompactOptions struct {
	Memory   int64    // of the map of keys, bytes; 128 MiB
	Throttle Throttle // nil is none
	Force    bool     // whatever the share of what is new
}

// Compacted is what a compaction did.
type Compacted struct {
	Segments, Made int   // that were replaced, and by how many
	Read, Written  int64 // bytes
	Records, Kept  int64 // looked at, and kept
	CleanedTo      int64 // offset
	LeftAlone      int64 // batches whose records cannot be read
}

// Dirty is the share of the log that compaction has not seen, and whether it is due.
func (p *Partition) Dirty(ctx context.Context) (ratio float64, due bool, err error) {
	c := p.cfg().Cleanup
	if !c.Compact {
		return 0, false, nil
	}
	v, err := p.beginRead(ctx)
	if err != nil {
		return 0, false, err
	}
	defer p.endRead()
	if err := p.freezeLate(ctx, v); err != nil {
		return 0, false, err
	}
	plan, err := p.planClean(ctx, v)
	if err != nil {
		return 0, false, err
	}
	return plan.ratio(), plan.due(c.MinDirtyRatio), nil
}

// Compact removes records that a later one with the same key supersedes, tombstones and
// transaction markers whose time has passed, and records of aborted transactions.
// Offsets and the headers of batches stay. It goes through ended segments only, writes
// what is kept into new ones, and swaps a group of segments for its successor in one
// entry of the manifest; the old files go after its Check.
//
// An error is about this attempt: the log is as it was before, or is compacted in part.
func (p *Partition) Compact(ctx context.Context, opt CompactOptions) (st Compacted, err error) {
	if !p.cfg().Cleanup.Compact {
		return st, nil
	}
	ctx, end, err := p.beginUpkeep(ctx)
	if err != nil {
		return st, err
	}
	defer end()
	v, err := p.beginRead(ctx)
	if err != nil {
		return st, err
	}
	defer p.endRead()
	plan, err := p.planClean(ctx, v)
	if err == nil && plan.dirty > 0 && (opt.Force || plan.due(p.cfg().Cleanup.MinDirtyRatio)) {
		c := &compaction{p: p, plan: plan, opt: opt, st: &st}
		if err = c.run(ctx); err == nil {
			p.cfg().Log.Info("log is compacted", "partition", p.name, "epoch", p.epoch, "to", st.CleanedTo, "segments", st.Segments,
				"made", st.Made, "read", st.Read, "written", st.Written, "records", st.Records, "kept", st.Kept)
		}
	}
	if err != nil {
		return st, fmt.Errorf("compact %s: %w", p.name, err)
	}
	return st, nil
}

// compaction is one pass over the log.
type compaction struct {
	p    *Partition
	plan *cleanPlan
	opt  CompactOptions
	st   *Compacted

	keys    *offsetMap
	aborted abortedTxns
	txns    bool                 // aborted is known
	markers map[int64]AbortedTxn // of the segments at hand, by the marker's offset
	open    map[int64]bool       // producers with transactional batches since their last marker
	l       looked
	kept    []byte // of the batch at hand, with sum
	sum     keptSum
}

func (c *compaction) run(ctx context.Context) error {
	memory := c.opt.Memory
	if memory <= 0 {
		memory = 128 << 20
	}
	c.keys = newOffsetMap(c.plan.upto-c.plan.from, memory)
	c.open = map[int64]bool{}
	upto, err := c.mapKeys(ctx)
	if err != nil {
		return err
	}
	if c.plan.upto <= c.plan.from {
		return nil // a transaction that has not ended begins there
	}
	if upto == c.plan.from {
		return fmt.Errorf("the keys of one batch do not fit into %d bytes (log.cleaner.dedupe.buffer.size)", memory)
	}
	c.plan.upto = upto
	for len(c.plan.segs) > 0 && c.plan.segs[len(c.plan.segs)-1].id.Base >= upto {
		c.plan.segs = c.plan.segs[:len(c.plan.segs)-1]
	}
	for segs := c.plan.segs; len(segs) > 0; {
		n := c.group(segs)
		if err := c.rewrite(ctx, segs[:n]); err != nil {
			return err
		}
		segs = segs[n:]
	}
	return c.finish(ctx)
}

// group is how many segments become one: as many as fit, so that they do not stay tiny.
func (c *compaction) group(segs []*segment) int {
	n, size := 1, segs[0].size
	for n < len(segs) && size+segs[n].size <= c.p.cfg().SegmentBytes && segs[n].end-segs[0].id.Base <= math.MaxInt32 {
		size += segs[n].size
		n++
	}
	return n
}

// mapKeys notes the newest offset of each key in what is new, as far as the map has
// room, and returns how far that was.
func (c *compaction) mapKeys(ctx context.Context) (upto int64, err error) {
	upto = c.plan.from
	for _, s := range c.plan.segs {
		if s.end <= c.plan.from {
			continue
		}
		full, err := c.mapSegment(ctx, s, &upto)
		if err != nil || full {
			return upto, err
		}
		upto = min(s.end, c.plan.upto)
	}
	return upto, nil
}

func (c *compaction) mapSegment(ctx context.Context, s *segment, upto *int64) (full bool, err error) {
	r, err := c.p.readWhole(s, c.opt.Throttle)
	if err != nil {
		return false, err
	}
	defer r.close()
	for {
		b, err := r.batch(ctx)
		if b == nil || err != nil {
			return false, err
		}
		if b.next() <= c.plan.from {
			continue
		}
		if b.attrs()&attrTransactional != 0 && !c.txns {
			if c.aborted, err = c.p.findAbortedTxns(ctx, c.plan.view, c.plan.from, c.plan.upto); err != nil {
				return false, err
			}
			c.txns = true
		}
		if b.base() >= c.plan.upto {
			return true, nil
		}
		if ok, err := c.mapBatch(b); !ok || err != nil {
			return true, err
		}
		*upto = b.next()
	}
}

// mapBatch reports false when there may be no room for the batch's keys.
func (c *compaction) mapBatch(b batch) (ok bool, err error) {
	if b.attrs()&attrControl != 0 {
		return true, nil
	}
	if b.count() == 0 || c.aborted.has(b) {
		return true, nil
	}
	it, err := c.l.records(b)
	if err != nil {
		return true, nil // left alone
	}
	if !c.keys.fits(int(min(b.count(), b.lastDelta()+1))) {
		return false, nil
	}
	var r record
	for it.next(&r) {
		if r.key != nil && c.keys.fits(1) {
			c.keys.put(r.key, b.base()+r.offset)
		}
	}
	return true, nil
}

// finish says how far the log is compacted, and that is the last of it.
func (c *compaction) finish(ctx context.Context) error {
	to := c.plan.upto
	c.st.CleanedTo = to
	return c.p.publish(ctx, "compaction", func(m *Manifest) ([]fact, error) {
		if m.Cleaned >= to {
			return nil, nil
		}
		return []fact{&LogCleaned{to}}, nil
	}, func() {
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.p.mu.cleaned = max(c.p.mu.cleaned, to)
	})
}

// rewrite makes one group's successor and swaps it in. A single segment of which
// everything is kept as it is stays.
func (c *compaction) rewrite(ctx context.Context, group []*segment) (err error) {
	w := &compactWriter{c: c, base: group[0].id.Base}
	defer func() {
		if err != nil {
			w.discard(err)
		}
	}()
	if len(group) > 1 {
		w.changed = true
	}
	if err := c.noteMarkers(ctx, group); err != nil {
		return err
	}
	for _, s := range group {
		if err := c.copySegment(ctx, s, w); err != nil {
			return err
		}
	}
	c.st.Segments += len(group)
	if !w.changed {
		c.st.Made += len(group)
		return nil
	}
	if err := w.finish(ctx, group[len(group)-1].end); err != nil {
		return err
	}
	c.st.Made += len(w.made)
	if c.p.cfg().breaks.unlinkEarly {
		c.p.mu.Lock()
		for _, s := range group {
			c.p.doomLocked(s.id, 0)
		}
		c.p.mu.Unlock()
	}
	return c.p.swap(ctx, group, w.made)
}

func (c *compaction) copySegment(ctx context.Context, s *segment, w *compactWriter) error {
	r, err := c.p.readWhole(s, c.opt.Throttle)
	if err != nil {
		return err
	}
	defer r.close()
	for {
		at := r.pos
		b, err := r.batch(ctx)
		if b == nil || err != nil {
			return err
		}
		c.st.Read += int64(len(b))
		out, changed, err := c.filter(b, r.pos == r.limit && s.end == c.plan.keepEnd)
		if err != nil {
			return err
		}
		if changed && !w.changed {
			w.changed = true
			if err := c.copyHead(ctx, s, at, w); err != nil {
				return err
			}
		}
		if out != nil && w.changed {
			if err := w.append(ctx, out); err != nil {
				return err
			}
		}
	}
}

// copyHead copies what of a segment was found to stay as it is.
func (c *compaction) copyHead(ctx context.Context, s *segment, upto int64, w *compactWriter) error {
	r, err := c.p.readWhole(s, c.opt.Throttle)
	if err != nil {
		return err
	}
	defer r.close()
	for r.pos < upto {
		b, err := r.batch(ctx)
		if err != nil {
			return err
		}
		if err := w.append(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// swap has the manifest name the new segments in the old ones' place, then shows them,
// and has the old files go.
func (p *Partition) swap(ctx context.Context, old, made []*segment) error {
	f := &SegmentsReplaced{}
	for _, s := range old {
		f.Old = append(f.Old, s.id)
	}
	for _, s := range made {
		f.New = append(f.New, Segment{SegmentID: s.id, End: s.end, Size: s.size, MaxTime: s.maxTime, Ended: s.endedAt, Aborted: p.noteSum(s.aborts.sum)})
	}
	return p.publish(ctx, "compaction", func(*Manifest) ([]fact, error) { return []fact{f}, nil }, func() {
		m := p.w.Committed().State
		p.mu.Lock()
		idle := p.swapLocked(m, old, made)
		p.mu.Unlock()
		closeAll(idle)
	})
}

// swapLocked shows what a committed manifest says. Meanwhile the log start may have
// passed some of the segments, old or new: those are gone already.
func (p *Partition) swapLocked(m *Manifest, old, made []*segment) []*handle {
	if p.mu.err != nil {
		return nil
	}
	var next, drop []*segment
	for _, s := range p.mu.segs {
		if slices.Contains(old, s) {
			drop = append(drop, s)
		} else {
			next = append(next, s)
		}
	}
	for _, s := range made {
		if m.has(s.id) {
			next = append(next, s)
		} else {
			drop = append(drop, s)
		}
	}
	slices.SortFunc(next, func(a, b *segment) int { return cmp.Compare(a.id.Base, b.id.Base) })
	p.mu.segs = next
	// What ended in the last of them ends in its successor.
	last := old[len(old)-1]
	for _, at := range []*mark{&p.mu.hw, &p.mu.written} {
		if at.seg == last && len(made) > 0 && !p.cfg().breaks.staleMarks {
			at.seg, at.pos = made[len(made)-1], made[len(made)-1].size
		}
	}
	return p.dropLocked(drop)
}
