package history

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// Follow is Records that goes on: it looks for news every interval until ctx ends. An entry
// that was told while it was not decided is told again if it is disowned. An error does not
// end it: what could not be read is looked for again.
func (s *Stream) Follow(ctx context.Context, f Filter, interval time.Duration) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		w := &follower{s: s, f: f, say: newSayer(s), undecided: map[substrate.Position]bool{}, taken: map[substrate.Epoch]bool{}}
		tick := time.NewTimer(0)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			ok, err := w.look(ctx, yield)
			if err != nil && ctx.Err() == nil {
				ok = yield(Record{}, err)
			}
			if !ok || ctx.Err() != nil {
				return
			}
			tick.Reset(interval)
		}
	}
}

type follower struct {
	s    *Stream
	f    Filter
	say  *sayer
	pick *picker

	last      substrate.Position // the newest that was looked at
	undecided map[substrate.Position]bool
	taken     map[substrate.Epoch]bool
}

// look tells what is new. It reports false when nobody wants more.
func (w *follower) look(ctx context.Context, yield func(Record, error) bool) (bool, error) {
	x, from, to, err := w.index(ctx)
	if err != nil {
		return true, err
	}
	for p := range w.undecided {
		if st := x.Status(p); st != metalog.StatusUndecided {
			delete(w.undecided, p)
			if st != metalog.StatusDisowned {
				continue
			}
			i, there := x.Find(p)
			if !there {
				continue
			}
			if ok, err := w.tell(ctx, x, i, i+1, yield); !ok || err != nil {
				return ok, err
			}
		}
	}
	if ok, err := w.tell(ctx, x, from, to, yield); !ok || err != nil {
		return ok, err
	}
	for _, t := range x.Taken {
		if !w.f.bySubject() && !w.taken[t.Epoch] && !yield(w.s.taken(t), nil) {
			return false, nil
		}
		w.taken[t.Epoch] = true
	}
	return true, nil
}

// index lists what may be new: all of the stream at first, then the epochs from the newest
// one on.
func (w *follower) index(ctx context.Context) (x *metalog.Index, from, to int, err error) {
	if w.pick == nil {
		if x, err = w.s.Index(ctx); err != nil {
			return nil, 0, 0, err
		}
		if from, _, err = window(ctx, x, w.f); err != nil {
			return nil, 0, 0, err
		}
		w.pick, err = w.s.picker(ctx, x, w.f, from)
		return x, from, x.Len(), err
	}
	if x, err = metalog.ReadIndexFrom(ctx, w.s.v, w.s.Path, w.last.Epoch); w.s.Absent && errors.Is(err, fs.ErrNotExist) {
		return &metalog.Index{Stream: w.s.Path}, 0, 0, nil
	}
	if err != nil {
		return nil, 0, 0, err
	}
	from, there := x.Find(w.last)
	if there {
		from++
	}
	return x, from, x.Len(), nil
}

func (w *follower) tell(ctx context.Context, x *metalog.Index, from, to int, yield func(Record, error) bool) (bool, error) {
	for r, err := range w.s.records(ctx, x, from, to, w.say) {
		if err != nil {
			return true, err
		}
		if w.last.Less(r.Position) {
			w.last = r.Position
		}
		if r.Status == metalog.StatusUndecided {
			w.undecided[r.Position] = true
		}
		if w.pick.wants(r) && !yield(r, nil) {
			return false, nil
		}
	}
	return true, nil
}
