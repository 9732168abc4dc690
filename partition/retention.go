package partition

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Retain applies retention.ms and retention.bytes, where the topic has them, and has
// the files go that lie below the log start. The order is sacred: a manifest without a
// segment is published and a Check has covered it, and only then its file is unlinked.
func (p *Partition) Retain(ctx context.Context) error {
	ctx, end, err := p.beginUpkeep(ctx)
	if err != nil {
		return err
	}
	defer end()
	return p.retain(ctx)
}

// retainIfFree is Retain, unless a compaction of the partition is under way.
func (p *Partition) retainIfFree(ctx context.Context) (done bool, err error) {
	ctx, end, err := p.tryUpkeep(ctx)
	if err != nil || end == nil {
		return false, err
	}
	defer end()
	return true, p.retain(ctx)
}

func (p *Partition) retain(ctx context.Context) error {
	if err := p.sweepOrphans(); err != nil {
		return fmt.Errorf("list the files of %s: %w", p.name, err)
	}
	r, err := p.expired(ctx)
	if err == nil && r.active {
		// As with any other, its end has to be in the manifest before it may go.
		if err = p.freeze(ctx); err == nil {
			r, err = p.expired(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("retention of %s: %w", p.name, err)
	}
	if r.start < 0 && !r.leftovers {
		return nil
	}
	if err := p.advance(ctx, r.start, "retention: "+r.why); err != nil {
		return fmt.Errorf("retention of %s: %w", p.name, err)
	}
	if r.start >= 0 {
		p.cfg().Log.Info("old records are removed", "partition", p.name, "epoch", p.epoch, "log_start", r.start, "why", r.why)
	}
	return nil
}

// DeleteRecords moves the log start up to an offset; -1 means the high watermark. It
// returns the log start, which may be above that. Errors wrap OFFSET_OUT_OF_RANGE, or
// POLICY_VIOLATION where the topic is compacted and not deleted from.
func (p *Partition) DeleteRecords(ctx context.Context, before int64) (lowWatermark int64, err error) {
	if c := p.cfg().Cleanup; c.Compact && !c.Delete {
		return -1, fmt.Errorf("%w: %s is compacted; its records are not deleted by offset", kerr.PolicyViolation, p.name)
	}
	if _, err := p.beginRead(ctx); err != nil {
		return -1, err
	}
	defer p.endRead()
	_, hw, _ := p.Offsets()
	if before == -1 {
		before = hw
	}
	if before < 0 || before > hw {
		return -1, fmt.Errorf("%w: records of %s before %d cannot be deleted, the high watermark is %d", kerr.OffsetOutOfRange, p.name, before, hw)
	}
	if start, _, _ := p.Offsets(); before <= start {
		return start, nil
	}
	if err := p.recoverTo(ctx, before); err != nil {
		return -1, err
	}
	if err := p.advance(ctx, before, "records are deleted on request"); err != nil {
		return -1, err
	}
	start, _, _ := p.Offsets()
	return start, nil
}

// advance moves the log start, if it is below to, and drops what then lies below it.
func (p *Partition) advance(ctx context.Context, to int64, reason string) error {
	if p.cfg().breaks.unlinkEarly {
		p.mu.Lock()
		for _, s := range p.mu.segs {
			if s.ended && s.end <= to {
				p.doomLocked(s.id, 0)
			}
		}
		p.mu.Unlock()
	}
	return p.publish(ctx, reason, func(m *Manifest) ([]fact, error) {
		if to <= m.LogStart && !m.below(m.LogStart) {
			return nil, nil
		}
		return []fact{&LogStartAdvanced{Offset: max(to, m.LogStart)}}, nil
	}, func() { closeAll(p.settleStart()) })
}

// settleStart takes the log start from the committed manifest.
func (p *Partition) settleStart() []*handle {
	m := p.w.Committed().State
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return nil
	}
	p.mu.logStart = max(p.mu.logStart, m.LogStart)
	p.settleTxns()
	es := slices.Clone(p.mu.epochs)
	for len(es) > 1 && es[1].Start <= p.mu.logStart {
		es = es[1:]
	}
	if len(es) > 0 {
		es[0].Start = max(es[0].Start, p.mu.logStart)
	}
	p.mu.epochs = es
	var keep, drop []*segment
	for _, s := range p.mu.segs {
		if s.ended && s.end <= p.mu.logStart && !m.has(s.id) {
			drop = append(drop, s)
		} else {
			keep = append(keep, s)
		}
	}
	if len(drop) == 0 {
		return nil
	}
	p.mu.segs = keep
	return p.dropLocked(drop)
}

// expiry is what retention has found.
type expiry struct {
	start     int64 // where the log is to begin; -1 if nothing is to go
	why       string
	active    bool // the active segment is to go too, and has to be ended first
	leftovers bool // segments lie below the log start
}

// expired walks the log from its start as far as segments are to go.
func (p *Partition) expired(ctx context.Context) (expiry, error) {
	p.mu.Lock()
	segs, hw, start := p.mu.segs, p.mu.hw.offset, p.mu.logStart
	sizes, total := make([]int64, len(segs)), int64(0)
	ended := make([]bool, len(segs))
	ends := make([]int64, len(segs))
	for i, s := range segs {
		sizes[i], ended[i], ends[i] = s.size, s.ended, s.end
		total += s.size
	}
	p.mu.Unlock()
	c, now := p.cfg().Cleanup, p.cfg().Now()
	out := expiry{start: -1}
	for i, s := range segs {
		if ends[i] > hw || sizes[i] == 0 {
			break
		}
		why := ""
		switch {
		case ends[i] <= start:
			out.leftovers = out.leftovers || ended[i]
		case !c.Delete:
			return out, nil
		case c.RetentionBytes >= 0 && total-sizes[i] >= c.RetentionBytes:
			why = fmt.Sprintf("more than retention.bytes=%d", c.RetentionBytes)
		case c.RetentionAge >= 0:
			old, err := p.olderThan(ctx, s, now.Add(-c.RetentionAge))
			if err != nil {
				return out, err
			}
			if !old {
				return out, nil
			}
			why = fmt.Sprintf("older than retention.ms=%d", c.RetentionAge.Milliseconds())
		default:
			return out, nil
		}
		if !ended[i] {
			out.active = true
			return out, nil
		}
		if total -= sizes[i]; why != "" {
			out.start, out.why = ends[i], why
		}
	}
	return out, nil
}

// olderThan reports that every record of a segment is older than t. Where its records
// have no timestamps, the last append counts, or its end where an earlier leader wrote it.
func (p *Partition) olderThan(ctx context.Context, s *segment, t time.Time) (bool, error) {
	last, err := p.maxTimeOf(ctx, s)
	if err != nil {
		return false, err
	}
	if last < 0 {
		p.mu.Lock()
		if last = s.wroteAt; last == 0 {
			last = s.endedAt
		}
		p.mu.Unlock()
		if last == 0 {
			return false, nil
		}
	}
	return last < t.UnixMilli(), nil
}

// maxTimeOf is the largest timestamp of a segment, if possible without its index.
func (p *Partition) maxTimeOf(ctx context.Context, s *segment) (int64, error) {
	p.mu.Lock()
	if s.timed {
		defer p.mu.Unlock()
		return s.maxTime, nil
	}
	p.mu.Unlock()
	x, err := p.indexed(ctx, s)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ended {
		s.maxTime, s.timed = x.maxTime, true
	}
	return x.maxTime, nil
}
