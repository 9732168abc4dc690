package metalog

import (
	"context"
	"fmt"

	"kaas.dev/kaas/internal/substrate"
)

// ReadState folds a stream up to its newest entry without claiming, sealing or
// changing anything. It is for tools and for looking before one leaps: the newest
// entries may be of an owner that is being fenced at this moment (committed tells
// what a Reader would say).
func ReadState[S any](ctx context.Context, v *substrate.Volume, stream string, sc *Schema[S]) (snap Snapshot[S], committed bool, err error) {
	to, err := Newest(v, stream)
	if err != nil {
		return snap, false, err
	}
	l, err := load(ctx, v, stream, to, sc)
	if err != nil {
		return snap, false, err
	}
	claim, err := v.ReadClaim(stream, to.Epoch)
	if err != nil {
		return snap, false, err
	}
	committed, err = v.Unsealed(claim.Session)
	return l.Snapshot, committed, err
}

// ReadStateAt is the fold of a stream up to a retained position.
func ReadStateAt[S any](ctx context.Context, v *substrate.Volume, stream string, p substrate.Position, sc *Schema[S]) (Snapshot[S], error) {
	l, err := load(ctx, v, stream, p, sc)
	if err != nil {
		return Snapshot[S]{}, err
	}
	return l.Snapshot, nil
}

// Newest is the newest non-empty entry of a stream that listings show.
func Newest(v *substrate.Volume, stream string) (substrate.Position, error) {
	epochs, err := v.ListEpochs(stream)
	if err != nil {
		return substrate.Position{}, err
	}
	for i := len(epochs) - 1; i >= 0; i-- {
		p, err := NewestEntry(v, stream, epochs[i])
		if err != nil || !p.IsZero() {
			return p, err
		}
	}
	return substrate.Position{}, fmt.Errorf("%s: %w", stream, substrate.ErrNoBase)
}
