package metalog

import (
	"context"
	"fmt"
	"path"
	"sync/atomic"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// Reader follows a stream that others write. It shows only committed states and
// never goes back. It is for one goroutine.
//
// The rule it lives by: read the entry, then open and list the session that its
// epoch names, in this order. Its token there and no directory: committed, since
// whoever claims later seals first and then sees the entry. Anything else: discard
// what was read and wait for the successor's base. The other order is unsound: a
// seal may fall between the look and the entry.
type Reader[S any] struct {
	v      *substrate.Volume
	stream string
	sc     *Schema[S]

	cur     *loaded[S] // what is shown; nil before the first state
	epoch   substrate.Epoch
	session string // of epoch
	hasHead bool   // a listing showed HEAD, so that reopening it is sound
	idle    int    // polls without news in a row

	told atomic.Pointer[substrate.Position] // see Expect
}

// idlePolls is after how many polls without news a reader looks for a successor
// although nothing says that the epoch has ended: its owner may have closed it and
// gone before HEAD told so, and after a closing nobody seals.
const idlePolls = 16

// NewReader returns a reader that has not looked yet.
func NewReader[S any](v *substrate.Volume, stream string, sc *Schema[S]) *Reader[S] {
	return &Reader[S]{v: v, stream: stream, sc: sc, epoch: -1}
}

// Expect tells the reader that its stream has a position, committed: the next Poll looks
// there without asking HEAD, which may be late. It may be called from any goroutine.
func (r *Reader[S]) Expect(p substrate.Position) {
	for {
		old := r.told.Load()
		if old != nil && !old.Less(p) || r.told.CompareAndSwap(old, &p) {
			return
		}
	}
}

// expected is a position beyond the shown one, in the followed epoch, that somebody told.
func (r *Reader[S]) expected() (substrate.Position, bool) {
	p := r.told.Load()
	if p == nil || p.Epoch != r.epoch || !r.cur.Pos.Less(*p) {
		return substrate.Position{}, false
	}
	return *p, true
}

// Snapshot is the newest committed state seen, and false before there is one.
func (r *Reader[S]) Snapshot() (Snapshot[S], bool) {
	if r.cur == nil {
		return Snapshot[S]{State: r.sc.New()}, false
	}
	return r.cur.Snapshot, true
}

// Poll looks once for news. An error leaves the reader as it was, and the next
// Poll looks again; what is damaged stays an error and is never skipped.
func (r *Reader[S]) Poll(ctx context.Context) (changed bool, err error) {
	if r.cur != nil && !r.cur.closed {
		changed, ended, err := r.pollEpoch(ctx)
		if err != nil || changed {
			r.idle = 0
			return changed, err
		}
		if r.idle++; !ended && r.idle%idlePolls != 0 {
			return false, nil
		}
	}
	return r.pollSuccessor(ctx)
}

// pollEpoch looks for news in the epoch that is followed. ended reports that its
// owner can write nothing more that counts.
func (r *Reader[S]) pollEpoch(ctx context.Context) (changed, ended bool, err error) {
	if r.v.Breaks.SessionBeforeEntry {
		if ok, err := r.v.Unsealed(r.session); err != nil || !ok {
			return false, err == nil, err
		}
	}
	next, err := r.read(ctx)
	if err != nil {
		// What the owner of a sealed epoch left may be torn or pruned: a successor's
		// base stands for it. Of a living owner it is an error.
		if ok, serr := r.v.Unsealed(r.session); serr == nil && !ok {
			return false, true, nil
		}
		return false, false, err
	}
	if !r.v.Breaks.SessionBeforeEntry {
		ok, err := r.v.Unsealed(r.session)
		if err != nil || !ok {
			return false, err == nil, err
		}
	}
	changed = r.cur.Pos.Less(next.Pos)
	r.cur = next
	return changed, next.closed, nil
}

// read folds what the followed epoch holds beyond the shown state.
func (r *Reader[S]) read(ctx context.Context) (*loaded[S], error) {
	if to, ok := r.expected(); ok {
		next, err := r.advance(ctx, to)
		if err != nil {
			r.told.Store(nil) // if it was not so, the stream itself shall tell
		}
		return next, err
	}
	to, err := r.newest()
	if err != nil || !r.cur.Pos.Less(to) {
		return r.cur, err
	}
	return r.advance(ctx, to)
}

// newest is the position that HEAD names, or the listing's while there is no HEAD:
// a name that was looked up while absent may stay absent for a minute.
func (r *Reader[S]) newest() (substrate.Position, error) {
	if r.hasHead {
		// Absent for a moment or torn, it is no news; the listing is the truth.
		if p, ok := r.v.ReadHead(r.stream, r.epoch); ok {
			return p, nil
		}
	}
	return r.newestListed(r.epoch)
}

// newestListed is the newest non-empty entry of an epoch in a listing.
func (r *Reader[S]) newestListed(e substrate.Epoch) (substrate.Position, error) {
	es, err := r.v.ListFresh(path.Join(r.stream, substrate.EpochName(e)))
	if err != nil {
		return substrate.Position{}, err
	}
	if e == r.epoch {
		for _, de := range es {
			r.hasHead = r.hasHead || de.Name == substrate.HeadName
		}
	}
	return NewestEntry(r.v, r.stream, e)
}

// NewestEntry is the newest non-empty entry of an epoch that a listing shows, or
// the zero position.
func NewestEntry(v *substrate.Volume, stream string, e substrate.Epoch) (substrate.Position, error) {
	ps, err := v.ListEntries(stream, e)
	if err != nil {
		return substrate.Position{}, err
	}
	for i := len(ps) - 1; i >= 0; i-- {
		b, err := v.ReadFile(substrate.EntryPath(stream, ps[i]))
		if err != nil {
			return substrate.Position{}, err
		}
		if len(b) > 0 {
			return ps[i], nil
		}
	}
	return substrate.Position{}, nil
}

// advance folds the entries after the shown one up to to. Where they are pruned
// already it starts again from the newest base.
func (r *Reader[S]) advance(ctx context.Context, to substrate.Position) (*loaded[S], error) {
	l := *r.cur
	for n := l.Pos.Seq + 1; n <= to.Seq; n++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p := substrate.Position{Epoch: to.Epoch, Seq: n}
		e, plug, err := ReadEntry(r.v, r.stream, p)
		if isNotExist(err) {
			return load(ctx, r.v, r.stream, to, r.sc)
		}
		if err != nil {
			return nil, err
		}
		if plug { // a sealer was here; the session will say so
			return &l, nil
		}
		if err := l.apply(r.stream, r.sc, e); err != nil {
			return nil, err
		}
	}
	return &l, nil
}

// pollSuccessor looks for the newest epoch above the followed one that has an
// entry, and moves there if its session is unsealed.
func (r *Reader[S]) pollSuccessor(ctx context.Context) (bool, error) {
	epochs, err := r.v.ListEpochs(r.stream)
	if err != nil {
		return false, err
	}
	for i := len(epochs) - 1; i >= 0 && epochs[i] > r.epoch; i-- {
		to, err := NewestEntry(r.v, r.stream, epochs[i])
		if err != nil {
			return false, err
		}
		if to.IsZero() {
			continue
		}
		return r.move(ctx, to)
	}
	return false, nil
}

func (r *Reader[S]) move(ctx context.Context, to substrate.Position) (bool, error) {
	claim, err := r.v.ReadClaim(r.stream, to.Epoch)
	if err != nil {
		return false, err
	}
	if r.v.Breaks.SessionBeforeEntry {
		if ok, err := r.v.Unsealed(claim.Session); err != nil || !ok {
			return false, err
		}
	}
	l, err := load(ctx, r.v, r.stream, to, r.sc)
	if err != nil {
		return false, err
	}
	if !r.v.Breaks.SessionBeforeEntry {
		if ok, err := r.v.Unsealed(claim.Session); err != nil || !ok {
			return false, err // a later owner's base will tell what of this counts
		}
	}
	r.cur, r.epoch, r.session, r.hasHead = l, to.Epoch, claim.Session, false
	return true, nil
}

// Follow polls until ctx ends, every interval or when wake says so, and calls on
// with each new state, and failed (if not nil) with each error, after which it
// goes on.
func (r *Reader[S]) Follow(ctx context.Context, interval time.Duration, wake <-chan struct{}, on func(Snapshot[S]), failed func(error)) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-t.C:
		}
		changed, err := r.Poll(ctx)
		if err != nil && failed != nil && ctx.Err() == nil {
			failed(fmt.Errorf("follow %s: %w", r.stream, err))
		}
		if changed {
			on(r.cur.Snapshot)
		}
		t.Reset(interval)
	}
}
