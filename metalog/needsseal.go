package metalog

import (
	"fmt"

	"kaas.dev/kaas/internal/substrate"
)

// NeedsSeal returns the session that a claim of an epoch by session would have to seal:
// the owner of the newest epoch below it that has one, unless that is closed, sealed
// already, or the session's own; then it is empty. newest is the newest below it, with or
// without an owner. It is what listings show, which may lag, and so good only for deciding
// when to claim.
func NeedsSeal(v *substrate.Volume, stream string, epoch substrate.Epoch, session string) (owner string, newest substrate.Epoch, err error) {
	newest = -1
	epochs, err := v.ListEpochs(stream)
	if err != nil {
		return "", newest, err
	}
	for i := len(epochs) - 1; i >= 0; i-- {
		e := epochs[i]
		if e >= epoch {
			continue
		}
		newest = max(newest, e)
		claim, err := v.ReadClaim(stream, e)
		if err != nil {
			return "", newest, err
		}
		if claim.Session == "" { // the stream's birth, which is closed, or burnt
			if p, err := NewestEntry(v, stream, e); err != nil || e == 0 || !p.IsZero() {
				return "", newest, err
			}
			continue
		}
		if claim.Session == session {
			return "", newest, nil
		}
		closed, err := closedIn(v, stream, e)
		if err != nil || closed {
			return "", newest, err
		}
		if unsealed, err := v.Unsealed(claim.Session); err != nil || !unsealed {
			return "", newest, err
		}
		return claim.Session, newest, nil
	}
	return "", newest, fmt.Errorf("%s: %w", stream, substrate.ErrNoBase)
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
