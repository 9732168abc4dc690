package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// State is the fold of a stream up to a position.
type State struct {
	Stream   *Stream
	Position substrate.Position // zero of an absent stream
	// Fold is a *projections.Cluster, *groups.Shard, *txns.Shard or *partition.Manifest,
	// to be read only.
	Fold any
}

// At folds the stream up to a retained position, or, if p is zero, to the newest entry as
// it is, decided or not.
func (s *Stream) At(ctx context.Context, p substrate.Position) (State, error) {
	if s.Absent {
		if !p.IsZero() {
			return State{}, fmt.Errorf("%s: nobody has owned it yet, so it has no position %s", s.Name, p)
		}
		return State{s, p, s.empty}, nil
	}
	if p.IsZero() {
		var err error
		if p, err = metalog.Newest(s.v, s.Path); err != nil {
			return State{}, err
		}
	}
	f, err := s.foldAt(ctx, p)
	if err != nil {
		return State{}, err
	}
	return s.state(f), nil
}

func (s *Stream) state(f folder) State {
	p, st := f.at()
	return State{s, p, st}
}

// Before folds the stream up to the newest committed entry below number i of the index.
func (s *Stream) Before(ctx context.Context, x *metalog.Index, i int) (State, error) {
	for i--; i >= 0; i-- {
		if p := x.At(i); x.Status(p) == metalog.StatusCommitted {
			return s.At(ctx, p)
		}
	}
	return s.Unborn(), nil
}

// StatesAt are the states at moments, each a text as ResolveIn reads it, but that latest is
// the newest entry as it is, decided or not, and that a time before the stream's birth is the
// state without anything. The stream is listed at most once.
func (s *Stream) StatesAt(ctx context.Context, now time.Time, texts ...string) ([]State, error) {
	var x *metalog.Index
	out := make([]State, len(texts))
	for i, text := range texts {
		_, err := substrate.ParsePosition(text)
		if err != nil && text != Latest && x == nil {
			if x, err = s.Index(ctx); err != nil {
				return nil, err
			}
		}
		if out[i], err = s.StateIn(ctx, x, now, text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// StateIn is StatesAt for one moment, by an index that is made. Only times need one.
func (s *Stream) StateIn(ctx context.Context, x *metalog.Index, now time.Time, text string) (State, error) {
	p, err := substrate.ParsePosition(text)
	switch {
	case err == nil:
	case text != Latest:
		p, err = s.ResolveIn(ctx, x, text, now)
	case x != nil:
		p, err = x.Newest(), nil
	default:
		err = nil
	}
	if errors.Is(err, ErrUnborn) {
		return s.Unborn(), nil
	}
	if err != nil {
		return State{}, err
	}
	return s.At(ctx, p)
}
