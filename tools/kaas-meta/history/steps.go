package history

import (
	"context"
	"errors"
	"io/fs"
	"iter"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// Step is a record with the state before and after it. They are the same for a record that
// changed nothing: a plug, or an entry that is disowned or cannot be read.
type Step struct {
	Record
	Before, After State
}

// Steps goes through the records as Records does, folding along. Where history is pruned,
// or damaged, states begin again at the next base, and nothing is said to have changed there.
func (s *Stream) Steps(ctx context.Context, f Filter) iter.Seq2[Step, error] {
	return indexed(ctx, s, func(x *metalog.Index) iter.Seq2[Step, error] { return s.StepsIn(ctx, x, f) })
}

// StepsIn is Steps by an index that is made.
func (s *Stream) StepsIn(ctx context.Context, x *metalog.Index, f Filter) iter.Seq2[Step, error] {
	return func(yield func(Step, error) bool) {
		from, _, err := window(ctx, x, f)
		if err != nil {
			yield(Step{}, err)
			return
		}
		pick, err := s.picker(ctx, x, f, from)
		if err != nil {
			yield(Step{}, err)
			return
		}
		w := &walker{s: s, now: State{Stream: s, Fold: s.empty}}
		all := Filter{Since: f.Since, Until: f.Until, From: f.From, To: f.To}
		for r, err := range s.RecordsIn(ctx, x, all) {
			var st Step
			if err == nil {
				st, err = w.step(ctx, x, r)
			}
			if err != nil {
				yield(Step{}, err)
				return
			}
			if pick.wants(r) && !yield(st, nil) {
				return
			}
		}
	}
}

// walker folds what goes by.
type walker struct {
	s    *Stream
	fold folder
	now  State
	lost bool // what is before cannot be folded: the next base is where states begin again
}

func (w *walker) step(ctx context.Context, x *metalog.Index, r Record) (Step, error) {
	if r.entry == nil || r.Status == metalog.StatusDisowned {
		return Step{r, w.now, w.now}, nil
	}
	if w.fold == nil && !w.lost {
		if err := w.start(ctx, x, r.Prev); err != nil {
			return Step{}, err
		}
	}
	before := w.now
	err := metalog.ErrGap
	if w.fold != nil {
		err = w.fold.Add(r.entry)
	}
	if errors.Is(err, metalog.ErrGap) && (r.Base || !w.lost) {
		err = w.jump(ctx, r.Position)
		if !r.Prev.IsZero() {
			before = w.now
		}
	}
	if err = w.unfoldable(err); err != nil {
		return Step{}, err
	}
	if w.fold != nil {
		w.now = w.s.state(w.fold)
	}
	return Step{r, before, w.now}, nil
}

// start folds up to what is before the first record, if it is retained.
func (w *walker) start(ctx context.Context, x *metalog.Index, p substrate.Position) error {
	if _, there := x.Find(p); !there {
		return nil
	}
	return w.unfoldable(w.jump(ctx, p))
}

// jump has the fold go on at a position.
func (w *walker) jump(ctx context.Context, p substrate.Position) error {
	fold, err := w.s.foldAt(ctx, p)
	if err != nil {
		return err
	}
	w.fold, w.now, w.lost = fold, w.s.state(fold), false
	return nil
}

// unfoldable takes note of entries that are pruned or damaged.
func (w *walker) unfoldable(err error) error {
	var damage *substrate.DamageError
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, metalog.ErrGap) || errors.As(err, &damage) {
		w.fold, w.lost = nil, true
		return nil
	}
	return err
}
