package metalog

import (
	"fmt"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// BuildFrom is [Build] for a stream that goes on from a state which another stream had: it
// is born in the given epoch with that state, and its first owner claims the next one.
func BuildFrom[S any](v *substrate.Volume, dir, stream string, sc *Schema[S], reason string, now time.Time, epoch substrate.Epoch, st S) error {
	raw, err := sc.Encode(st)
	if err != nil {
		return fmt.Errorf("build %s: %w", stream, err)
	}
	e := Entry{Pos: substrate.Position{Epoch: epoch, Seq: 1}, Time: now, Reason: reason, Node: -1, Base: true, Closed: true, State: raw}
	b, err := e.encode(stream)
	if err != nil {
		return err
	}
	if err := v.BuildStreamAt(dir, epoch, b); err != nil {
		return fmt.Errorf("build %s: %w", stream, err)
	}
	return nil
}
