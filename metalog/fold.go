package metalog

import (
	"context"
	"errors"
	"fmt"

	"kaas.dev/kaas/internal/substrate"
)

// ErrGap means that an entry does not follow the state that it was to be folded into.
var ErrGap = errors.New("does not follow the state")

// Fold is a state that a history is folded into, entry by entry. It is for one goroutine.
type Fold[S any] struct {
	stream string
	sc     *Schema[S]
	l      *loaded[S]
}

// FoldAt begins with the fold of a stream up to a retained position.
func FoldAt[S any](ctx context.Context, v *substrate.Volume, stream string, p substrate.Position, sc *Schema[S]) (*Fold[S], error) {
	l, err := load(ctx, v, stream, p, sc)
	if err != nil {
		return nil, err
	}
	return &Fold[S]{stream, sc, l}, nil
}

// Snapshot is the state so far.
func (f *Fold[S]) Snapshot() Snapshot[S] { return f.l.Snapshot }

// Add folds the next committed entry in. An error leaves the fold as it was; ErrGap says
// that entries between are missing, and that FoldAt goes on behind them.
func (f *Fold[S]) Add(e *Entry) error {
	if e.Prev != f.l.Pos {
		return fmt.Errorf("%s: %w at %s", substrate.EntryPath(f.stream, e.Pos), ErrGap, f.l.Pos)
	}
	return f.l.apply(f.stream, f.sc, e)
}
