package metalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/substrate"
)

// Schema tells a stream how its state is folded. All functions are pure: S is an
// immutable value, and Apply returns a new one.
type Schema[S any] struct {
	New    func() S
	Apply  func(S, []Event) (S, error)
	Encode func(S) ([]byte, error) // one msgpack value
	Decode func([]byte) (S, error)
	// Known reports whether this build understands an event. One that it does not
	// may be read and passed on, but not owned.
	Known func(Event) bool
}

// Snapshot is a state and the position it is the fold of.
type Snapshot[S any] struct {
	Pos   substrate.Position
	State S
}

// loaded is a fold with what is needed to continue it.
type loaded[S any] struct {
	Snapshot[S]
	sum        uint32 // of the entry at Pos
	base       substrate.Position
	stateBytes int // of the base
	eventBytes int // since the base
	files      int // since the base
	closed     bool
	unknown    string // a type of event that this build does not know
}

// readAhead is how many files of a chain are read side by side.
const readAhead = 16

// chain reads the entries from the newest base at or below to, up to it, in order.
func chain(ctx context.Context, v *substrate.Volume, stream string, to substrate.Position) ([]*Entry, error) {
	var out []*Entry // newest first
	for top := to.Seq; top > 0; {
		n := min(top, readAhead)
		if len(out) == 0 { // the newest is often a base
			n = 1
		}
		part := make([]*Entry, n)
		g, _ := errgroup.WithContext(ctx)
		for i := range part {
			g.Go(func() error {
				p := substrate.Position{Epoch: to.Epoch, Seq: top - uint64(i)}
				e, _, err := ReadEntry(v, stream, p)
				if i > 0 && errors.Is(err, fs.ErrNotExist) {
					return nil // pruned, or plugged since: below the base, or found out in order
				}
				part[i] = e
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		for i, e := range part {
			if e == nil {
				p := substrate.Position{Epoch: to.Epoch, Seq: top - uint64(i)}
				return nil, fmt.Errorf("%s: %w, and the series has no base above it", substrate.EntryPath(stream, p), fs.ErrNotExist)
			}
			out = append(out, e)
			if e.Base {
				return reverse(out), checkLinks(stream, out)
			}
		}
		top -= n
	}
	return nil, &substrate.DamageError{File: substrate.EntryPath(stream, to), Cause: "the series has no base"}
}

func reverse(es []*Entry) []*Entry {
	for i, j := 0, len(es)-1; i < j; i, j = i+1, j-1 {
		es[i], es[j] = es[j], es[i]
	}
	return es
}

func checkLinks(stream string, es []*Entry) error {
	for i := 1; i < len(es); i++ {
		if err := checkLink(stream, es[i], es[i-1].Pos, es[i-1].Sum); err != nil {
			return err
		}
	}
	return nil
}

func checkLink(stream string, e *Entry, prev substrate.Position, sum uint32) error {
	if e.Prev == prev && e.PrevSum == sum {
		return nil
	}
	return &substrate.DamageError{File: substrate.EntryPath(stream, e.Pos), Offset: substrate.FrameHeader,
		Cause: fmt.Sprintf("follows %s with checksum %08x, but that entry is %s with %08x", e.Prev, e.PrevSum, prev, sum)}
}

// load folds the stream up to a position.
func load[S any](ctx context.Context, v *substrate.Volume, stream string, to substrate.Position, sc *Schema[S]) (*loaded[S], error) {
	es, err := chain(ctx, v, stream, to)
	if err != nil {
		return nil, err
	}
	base := es[0]
	st, err := sc.Decode(base.State)
	if err != nil {
		return nil, &substrate.DamageError{File: substrate.EntryPath(stream, base.Pos), Offset: substrate.FrameHeader, Cause: "state: " + err.Error()}
	}
	l := &loaded[S]{base: base.Pos, stateBytes: len(base.State)}
	l.State, l.Pos, l.sum, l.closed = st, base.Pos, base.Sum, base.Closed
	l.note(sc, base)
	for _, e := range es[1:] {
		if err := l.apply(stream, sc, e); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *loaded[S]) note(sc *Schema[S], e *Entry) {
	for _, ev := range e.Events {
		if !sc.Known(ev) {
			l.unknown = ev.Type
		}
	}
}

// apply folds the next entry in, or leaves l as it is and returns an error.
func (l *loaded[S]) apply(stream string, sc *Schema[S], e *Entry) error {
	if err := checkLink(stream, e, l.Pos, l.sum); err != nil {
		return err
	}
	st, err := sc.Apply(l.State, e.Events)
	if err != nil {
		return &substrate.DamageError{File: substrate.EntryPath(stream, e.Pos), Offset: substrate.FrameHeader, Cause: "events: " + err.Error()}
	}
	l.note(sc, e)
	l.Pos, l.State, l.sum, l.closed = e.Pos, st, e.Sum, e.Closed
	l.files++
	l.eventBytes += eventBytes(e.Events)
	if e.Base {
		l.base, l.stateBytes, l.eventBytes, l.files = e.Pos, len(e.State), 0, 0
	}
	return nil
}

// Build makes a stream, in its birth form, in directory dir, which must not exist
// and is renamed later so that the stream's final name is stream. Its single entry
// is the fold of events over the empty state.
func Build[S any](v *substrate.Volume, dir, stream string, sc *Schema[S], reason string, now time.Time, events ...Event) error {
	st, err := sc.Apply(sc.New(), events)
	if err != nil {
		return fmt.Errorf("build %s: %w", stream, err)
	}
	raw, err := sc.Encode(st)
	if err != nil {
		return fmt.Errorf("build %s: %w", stream, err)
	}
	e := Entry{Pos: substrate.Position{Epoch: 0, Seq: 1}, Time: now, Reason: reason, Node: -1,
		Events: events, Base: true, Closed: true, State: raw}
	b, err := e.encode(stream)
	if err != nil {
		return err
	}
	if err := v.BuildStream(dir, b); err != nil {
		return fmt.Errorf("build %s: %w", stream, err)
	}
	return nil
}

// Ensure makes the stream if it is not there: built aside, renamed into place. Its
// parent directory must exist. Rules 1 and 2.
func Ensure[S any](v *substrate.Volume, stream string, sc *Schema[S], reason string, now time.Time, events ...Event) error {
	es, err := v.ListFresh(path.Dir(stream))
	if err != nil {
		return err
	}
	for _, e := range es {
		if e.Name == path.Base(stream) {
			return nil
		}
	}
	tmp := v.TempName(path.Dir(stream), "birth")
	if err := Build(v, tmp, stream, sc, reason, now, events...); err != nil {
		return err
	}
	_, err = v.Place(tmp, stream)
	return err
}
