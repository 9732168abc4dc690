package partition

import "context"

// OffsetForTimestamp finds the first record with a timestamp of at least ts
// (milliseconds): its offset, timestamp and leader epoch; offset -1 if there is none. It
// looks into compressed batches too.
func (p *Partition) OffsetForTimestamp(ctx context.Context, ts int64) (offset, timestamp int64, leaderEpoch int32, err error) {
	return p.find(ctx, func() (place, error) { return p.firstSince(ctx, ts) })
}

// MaxTimestamp finds the first record with the largest timestamp (KIP-734): its offset,
// timestamp and leader epoch; offset -1 in an empty log.
func (p *Partition) MaxTimestamp(ctx context.Context) (offset, timestamp int64, leaderEpoch int32, err error) {
	return p.find(ctx, func() (place, error) { return p.latest(ctx) })
}

// place is a record that was looked for.
type place struct {
	offset, time int64
	epoch        int32
}

var nowhere = place{-1, -1, -1}

func (p *Partition) firstSince(ctx context.Context, ts int64) (place, error) {
	v, err := p.beginRead(ctx)
	if err != nil {
		return nowhere, err
	}
	defer p.endRead()
	for i, s := range v.segs {
		if p.older(s, ts) {
			continue
		}
		x, err := p.indexed(ctx, s)
		if err != nil {
			return nowhere, err
		}
		if x.maxTime < ts {
			continue
		}
		at, err := p.firstIn(ctx, v, i, x.floorTime(ts), ts)
		if err != nil || at.offset >= 0 {
			return at, err
		}
	}
	return nowhere, nil
}

// firstIn is firstSince within a segment, from a byte on.
func (p *Partition) firstIn(ctx context.Context, v view, i int, from, ts int64) (place, error) {
	for {
		size := int64(0)
		at, err := p.findBatch(ctx, v, i, from, func(b batch) bool {
			size = b.size()
			return b.maxTime() >= ts && b.next() > v.logStart && b.count() > 0
		})
		if err != nil || at < 0 {
			return nowhere, err
		}
		// A header's largest timestamp may be that of a record below the log start.
		found, err := p.findRecord(v.segs[i], at, v.limit(i), func(r place) bool { return r.time >= ts && r.offset >= v.logStart })
		if err != nil || found.offset >= 0 {
			return found, err
		}
		from = at + size
	}
}

func (p *Partition) latest(ctx context.Context) (place, error) {
	v, err := p.beginRead(ctx)
	if err != nil {
		return nowhere, err
	}
	defer p.endRead()
	top, err := p.latestAcross(ctx, v)
	if err != nil {
		return nowhere, err
	}
	best, bestAt, bestTime := -1, int64(-1), int64(noTime)
	if top.offset >= 0 {
		bestTime = top.time
	}
	for i, s := range v.segs {
		if p.older(s, bestTime+1) {
			continue
		}
		x, err := p.indexed(ctx, s)
		if err != nil {
			return nowhere, err
		}
		if x.maxTime <= bestTime {
			continue
		}
		from := x.floorTime(x.maxTime)
		switch {
		case s.id.Base < v.logStart:
			from = x.floor(v.logStart - s.id.Base) // its largest may lie below
		case i == len(v.segs)-1:
			from = x.floorTime(bestTime + 1) // its largest may not be committed yet
		}
		err = p.scanHeaders(ctx, s, from, v.limit(i), func(pos int64, b batch) bool {
			if b.maxTime() > bestTime && b.base() >= v.logStart && b.count() > 0 {
				best, bestAt, bestTime = i, pos, b.maxTime()
			}
			return true
		})
		if err != nil {
			return nowhere, err
		}
	}
	if best < 0 {
		return top, nil
	}
	return p.latestOf(v, best, bestAt)
}

// latestAcross is latest within the batch that the log start is in the middle of:
// its header tells of records that are no more.
func (p *Partition) latestAcross(ctx context.Context, v view) (place, error) {
	for i, s := range v.segs {
		if s.id.Base >= v.logStart {
			break
		}
		x, err := p.indexed(ctx, s)
		if err != nil {
			return nowhere, err
		}
		at, err := p.findBatch(ctx, v, i, x.floor(v.logStart-s.id.Base), func(b batch) bool { return b.next() > v.logStart && b.base() < v.logStart })
		if err != nil {
			return nowhere, err
		}
		if at >= 0 {
			return p.latestOf(v, i, at)
		}
	}
	return nowhere, nil
}

// latestOf is latest within one batch. Its header is not asked: it may be wrong.
func (p *Partition) latestOf(v view, i int, at int64) (place, error) {
	top := nowhere
	_, err := p.findRecord(v.segs[i], at, v.limit(i), func(r place) bool {
		if r.offset >= v.logStart && (top.offset < 0 || r.time > top.time) {
			top = r
		}
		return false
	})
	return top, err
}

// findBatch returns the byte of the first batch that is wanted, -1 if there is none.
func (p *Partition) findBatch(ctx context.Context, v view, i int, from int64, want func(batch) bool) (int64, error) {
	at := int64(-1)
	err := p.scanHeaders(ctx, v.segs[i], from, v.limit(i), func(pos int64, b batch) bool {
		if want(b) {
			at = pos
		}
		return at < 0
	})
	return at, err
}

// findRecord looks into the batch at a byte of a segment for the first record that is
// wanted. Records that cannot be read count as one that has the batch's first offset and
// largest timestamp.
func (p *Partition) findRecord(s *segment, pos, limit int64, want func(place) bool) (place, error) {
	head := make(batch, batchHeader)
	if err := p.readAt(s, head, pos); err != nil {
		return nowhere, err
	}
	if pos+head.size() > limit {
		return nowhere, p.damaged(s.id, pos, "the batch is longer than what the manifest admits")
	}
	b := make(batch, head.size())
	if err := p.readAt(s, b, pos); err != nil {
		return nowhere, err
	}
	l := lookers.Get().(*looked)
	defer lookers.Put(l)
	found := nowhere
	err := l.walk(b, maxInflated, func(r *record) bool {
		at := place{b.base() + r.offset, b.timeOf(r), b.epoch()}
		if want(at) {
			found = at
			return false
		}
		return true
	})
	if whole := (place{b.base(), b.maxTime(), b.epoch()}); err != nil && want(whole) {
		return whole, nil
	}
	return found, nil
}
