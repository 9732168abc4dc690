package metalog

import (
	"fmt"

	"kaas.dev/kaas/internal/substrate"
)

// NeedsSeal reports whether a claim of an epoch by session would have to seal another:
// whether the newest epoch below it that has an owner is neither closed, nor sealed
// already, nor the session's own. newest is the newest below it, with or without an owner.
// It is what listings show, which may lag, and so good only for deciding when to claim.
func NeedsSeal(v *substrate.Volume, stream string, epoch substrate.Epoch, session string) (needs bool, newest substrate.Epoch, err error) {
	newest = -1
	epochs, err := v.ListEpochs(stream)
	if err != nil {
		return false, newest, err
	}
	for i := len(epochs) - 1; i >= 0; i-- {
		e := epochs[i]
		if e >= epoch {
			continue
		}
		newest = max(newest, e)
		name := substrate.ClaimPath(stream, e)
		b, err := v.ReadFile(name)
		if err != nil {
			return false, newest, err
		}
		claim, err := substrate.DecodeClaim(name, b)
		if err != nil {
			return false, newest, err
		}
		if claim.Session == "" && e > 0 {
			continue // burnt
		}
		if claim.Session == session {
			return false, newest, nil
		}
		closed, err := closedIn(v, stream, e)
		if err != nil || closed {
			return false, newest, err
		}
		needs, err = v.Unsealed(claim.Session)
		return needs, newest, err
	}
	return false, newest, fmt.Errorf("%s: %w", stream, substrate.ErrNoBase)
}

// closedIn reports whether the newest entry of an epoch is a closed one.
func closedIn(v *substrate.Volume, stream string, e substrate.Epoch) (bool, error) {
	p, err := NewestEntry(v, stream, e)
	if err != nil || p.IsZero() {
		return false, err
	}
	entry, plug, err := ReadEntry(v, stream, p)
	if err != nil || plug {
		return false, err
	}
	return entry.Closed, nil
}
