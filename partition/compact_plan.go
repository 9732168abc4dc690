package partition

import (
	"context"
	"math"
	"time"
)

// cleanPlan is what a compaction is about to do.
type cleanPlan struct {
	view view
	segs []*segment // ascending, from the log's start: what is gone through
	// from and upto bound what was not compacted before; upto is in the last segment, or its end.
	from, upto   int64
	clean, dirty int64 // bytes before and behind from
	now          int64 // ms
	keepEnd      int64 // the end of the log's last ended segment: something stays there to be read
	overdue      bool  // by max.compaction.lag.ms
}

// due reports whether there is enough to do.
func (c *cleanPlan) due(ratio float64) bool {
	return c.dirty > 0 && (c.overdue || c.ratio() > ratio)
}

func (c *cleanPlan) ratio() float64 {
	if c.dirty == 0 {
		return 0
	}
	return float64(c.dirty) / float64(c.clean+c.dirty)
}

// planClean looks what there is to compact: ended segments below the high watermark, as
// far as the last stable offset, old enough for min.compaction.lag.ms.
func (p *Partition) planClean(ctx context.Context, v view) (*cleanPlan, error) {
	c, now := p.cfg().Cleanup, p.cfg().Now()
	out := &cleanPlan{view: v, now: now.UnixMilli()}
	p.mu.Lock()
	out.from = max(p.mu.cleaned, v.logStart)
	var ended []*segment
	for _, s := range v.segs {
		if !s.ended {
			break
		}
		ended = append(ended, s)
		out.keepEnd = s.end
	}
	p.mu.Unlock()
	out.upto = out.from
	for _, s := range ended {
		if s.end > v.hw.offset || s.id.Base >= v.stable {
			break
		}
		if s.end > out.from {
			young, err := p.youngerThan(ctx, s, now.Add(-c.MinCompactionLag))
			if err != nil {
				return nil, err
			}
			if c.MinCompactionLag > 0 && young {
				break
			}
			first, err := p.firstTime(ctx, v, s)
			if err != nil {
				return nil, err
			}
			out.overdue = out.overdue || c.late(first, now)
			out.dirty += s.size
			out.upto = min(s.end, v.stable)
		} else {
			out.clean += s.size
		}
		out.segs = append(out.segs, s)
	}
	return out, nil
}

// late reports whether a record of that time should have been compacted by now.
func (c Cleanup) late(first int64, now time.Time) bool {
	return c.MaxCompactionLag > 0 && first >= 0 && first < now.Add(-c.MaxCompactionLag).UnixMilli()
}

func (p *Partition) youngerThan(ctx context.Context, s *segment, t time.Time) (bool, error) {
	last, err := p.maxTimeOf(ctx, s)
	return last > t.UnixMilli(), err
}

// firstTime is the largest timestamp of a segment's first batch, -1 where nobody asks.
func (p *Partition) firstTime(ctx context.Context, v view, s *segment) (first int64, err error) {
	if p.cfg().Cleanup.MaxCompactionLag <= 0 {
		return -1, nil
	}
	p.mu.Lock()
	first = s.firstTime
	p.mu.Unlock()
	if first != 0 {
		return first, nil
	}
	for i := range v.segs {
		if v.segs[i] == s {
			_, err = p.findBatch(ctx, v, i, 0, func(b batch) bool { first = b.maxTime(); return true })
		}
	}
	if err == nil && first != math.MinInt64 {
		p.mu.Lock()
		s.firstTime = first
		p.mu.Unlock()
	}
	return first, err
}

// freezeLate ends the active segment where its first record should have been compacted.
func (p *Partition) freezeLate(ctx context.Context, v view) error {
	if p.cfg().Cleanup.MaxCompactionLag <= 0 || len(v.segs) == 0 {
		return nil
	}
	s := v.segs[len(v.segs)-1]
	p.mu.Lock()
	frozen := s.frozen
	p.mu.Unlock()
	if frozen || v.hw.pos == 0 {
		return nil
	}
	first, err := p.firstTime(ctx, v, s)
	if err != nil || !p.cfg().Cleanup.late(first, p.cfg().Now()) {
		return err
	}
	return p.freeze(ctx)
}
