package partition

import (
	"context"
	"slices"
)

// cutter is how a Cut goes about it.
type cutter func(ctx context.Context, v view, at Place, maxBytes int, minOne bool) (Found, error)

// CutCommitted is [Partition.Cut] below the last stable offset, with the aborted
// transactions that have records in the region.
func (p *Partition) CutCommitted(ctx context.Context, at Place, maxBytes int, minOne bool) (out Found, err error) {
	err = again(func() error {
		out, err = p.cut(ctx, at, maxBytes, minOne, p.cutStable)
		return err
	})
	return out, err
}

// stableView is the view as if the high watermark were where the last stable offset is.
func (p *Partition) stableView(ctx context.Context, v view) (view, error) {
	if v.stable >= v.hw.offset {
		return v, nil
	}
	p.mu.Lock()
	at := p.mu.stableAt
	p.mu.Unlock()
	if at.offset != v.stable || !slices.Contains(v.segs, at.seg) {
		var err error
		if at, err = p.locate(ctx, v, v.stable); err != nil {
			return v, err
		}
		p.mu.Lock()
		p.mu.stableAt = at
		p.mu.Unlock()
	}
	return v.upTo(at.mark()), nil
}

func (at Place) mark() mark { return mark(at) }

func (p *Partition) cutStable(ctx context.Context, v view, at Place, maxBytes int, minOne bool) (Found, error) {
	if at.offset >= v.stable || at.offset < v.logStart {
		out, err := p.cutIn(ctx, v, at, 0, false) // nothing, or why
		out.Aborted = []AbortedTxn{}
		return out, err
	}
	stable, err := p.stableView(ctx, v)
	if err != nil {
		return Found{}, err
	}
	out, err := p.cutIn(ctx, stable, at, maxBytes, minOne)
	out.HighWatermark, out.Aborted = v.hw.offset, []AbortedTxn{}
	if err != nil || out.Region == nil {
		return out, err
	}
	if out.Aborted, err = p.abortedBetween(ctx, v, at.offset, out.Region.next); err != nil {
		out.Region.Release()
		out.Region = nil
	}
	return out, err
}

func (p *Partition) readStable(ctx context.Context, v view, offset int64, maxBytes int, minOne bool) (Fetched, error) {
	stable, err := p.stableView(ctx, v)
	if err != nil {
		return Fetched{}, err
	}
	out, err := p.readFrom(ctx, stable, min(offset, stable.hw.offset), maxBytes, minOne)
	out.HighWatermark, out.Aborted = v.hw.offset, []AbortedTxn{}
	if err != nil || len(out.Records) == 0 {
		return out, err
	}
	next := int64(0)
	for b := batch(out.Records); len(b) > 0; b = b[b.size():] {
		next = b.next()
	}
	out.Aborted, err = p.abortedBetween(ctx, v, offset, next)
	return out, err
}

// AheadCommitted is [Partition.Ahead] up to the last stable offset, for which it may have
// to look at the volume.
func (p *Partition) AheadCommitted(ctx context.Context, at Place) (bytes int64, ok bool) {
	for range 2 {
		p.mu.Lock()
		hw, stable, end := p.mu.hw, p.mu.stable, p.mu.stableAt.mark()
		if stable == hw.offset {
			end = hw
		}
		if at.offset >= stable {
			end = mark{offset: stable}
		}
		known := end.offset == stable && (end.seg == nil || slices.Contains(p.mu.segs, end.seg))
		if ended := p.mu.err != nil; ended || known {
			defer p.mu.Unlock()
			if ended {
				return 0, false
			}
			return p.aheadUpTo(at, end)
		}
		p.mu.Unlock()
		_, err := beside(ctx, p, func(v view) (view, error) { return p.stableView(ctx, v) })
		if err != nil {
			return 0, false
		}
	}
	return 0, true // it moves on: who waits is told, and looks again
}
