package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// TextError is a text that cannot name what it is to name: a stream, a position, a time or a
// thing. Nothing was looked for.
type TextError struct{ text string }

func (e *TextError) Error() string { return e.text }

func badText(format string, a ...any) error { return &TextError{fmt.Sprintf(format, a...)} }

// Latest names the newest entry.
const Latest = "latest"

// ParseTime reads RFC 3339 or a duration ago, such as 2h.
func ParseTime(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return t, badText("%q is neither a time such as 2026-11-29T12:00:00Z nor a time ago such as 2h", s)
	}
	return t, nil
}

// Resolve finds the position that a text names in a stream: a retained position such as
// 6-43; latest, the newest entry that is known to be committed; or a time as ParseTime
// reads it, for the newest committed entry at it or before. A position is taken whatever
// became of its entry; see [metalog.Index.Status].
func Resolve(ctx context.Context, v *substrate.Volume, stream, text string) (substrate.Position, error) {
	s, err := Find(ctx, v, stream)
	if err != nil {
		return substrate.Position{}, err
	}
	x, err := s.Index(ctx)
	if err != nil {
		return substrate.Position{}, err
	}
	return s.ResolveIn(ctx, x, text, time.Now())
}

// ResolveIn is Resolve by an index that is made, and a clock.
func (s *Stream) ResolveIn(ctx context.Context, x *metalog.Index, text string, now time.Time) (p substrate.Position, err error) {
	if text == Latest {
		if p = x.NewestCommitted(); p.IsZero() {
			err = fmt.Errorf("%s has no committed entry", s.Name)
		}
		return p, err
	}
	if p, err = substrate.ParsePosition(text); err == nil {
		if _, ok := x.Find(p); !ok {
			return p, fmt.Errorf("%s has no position %s%s", s.Name, p, retained(x))
		}
		return p, nil
	}
	t, err := ParseTime(text, now)
	if err != nil {
		return p, badText("%q is not a position such as 6-43, nor %s, nor a time such as 2026-11-29T12:00:00Z or 2h", text, Latest)
	}
	if p, err = x.CommittedAt(ctx, t); err != nil || !p.IsZero() {
		return p, err
	}
	if x.Len() == 0 || x.At(0).Epoch == 0 { // its birth is retained
		return p, fmt.Errorf("%s at %s: %w", s.Name, t.UTC().Format(time.RFC3339), ErrUnborn)
	}
	return p, fmt.Errorf("%s has no entry of %s or before%s", s.Name, t.UTC().Format(time.RFC3339), retained(x))
}

// ErrUnborn means that a time is before a stream was there.
var ErrUnborn = errors.New("the stream was not there yet")

// Unborn is the state before the stream was there.
func (s *Stream) Unborn() State { return State{Stream: s, Fold: s.empty} }

func retained(x *metalog.Index) string {
	if x.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("; %s to %s are retained", x.At(0), x.Newest())
}
