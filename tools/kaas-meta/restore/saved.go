package restore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// Saved is the state of one stream at a position.
type Saved struct {
	Stream  string             `msgpack:"stream"` // cluster, groups/NN or txns/NN
	Pos     substrate.Position `msgpack:"pos"`
	TimeMS  int64              `msgpack:"time_ms"` // of that entry
	State   []byte             `msgpack:"state"`
	Secrets []string           `msgpack:"secrets"` // what it holds that nobody else should see
}

// Time is that of the entry.
func (s *Saved) Time() time.Time { return time.UnixMilli(s.TimeMS).UTC() }

// ErrNoStream means that a stream is not there.
var ErrNoStream = errors.New("there is no such stream")

// Take reads a stream's state at a position, the zero one being the newest.
func Take(ctx context.Context, v *substrate.Volume, stream string, at substrate.Position) (Saved, error) {
	k, err := kindOf(stream)
	if err != nil {
		return Saved{}, err
	}
	if there, err := exists(v, stream); err != nil || !there {
		return Saved{}, errors.Join(err, fmt.Errorf("%s: %w", stream, ErrNoStream))
	}
	if at.IsZero() {
		if at, err = metalog.Newest(v, k.path(v)); err != nil {
			return Saved{}, err
		}
	} else if err := counts(v, k.path(v), at); err != nil {
		return Saved{}, err
	}
	e, plug, err := metalog.ReadEntry(v, k.path(v), at)
	if errors.Is(err, fs.ErrNotExist) || plug {
		return Saved{}, fmt.Errorf("%s: there is no entry %s, or none any more; log shows what is kept", stream, at)
	}
	if err != nil {
		return Saved{}, err
	}
	return k.take(ctx, v, e)
}

// counts refuses a position that a successor disowned: what was written there was never
// acknowledged. Each epoch's first entry names what it continues from; none of those above
// a position that is kept is pruned.
func counts(v *substrate.Volume, stream string, p substrate.Position) error {
	newest, err := metalog.Newest(v, stream)
	if err != nil {
		return err
	}
	for top := newest; ; {
		switch {
		case top.Less(p):
			return fmt.Errorf("%s: entry %s never counted: the stream continues from %s", stream, p, top)
		case top.Epoch == p.Epoch:
			return nil
		}
		first, plug, err := metalog.ReadEntry(v, stream, substrate.Position{Epoch: top.Epoch, Seq: 1})
		if err != nil {
			return err
		}
		if plug || !first.Prev.Less(top) {
			return &substrate.DamageError{File: substrate.EntryPath(stream, substrate.Position{Epoch: top.Epoch, Seq: 1}), Cause: "tells not what its epoch continues from"}
		}
		top = first.Prev
	}
}

// WasVolume reports whether the volume had an ID before its own: a rebuild, or the return of a
// storage snapshot, gives it another, and leaves the directory of the earlier one.
func WasVolume(v *substrate.Volume, id string) (bool, error) {
	es, err := v.ListFresh("meta")
	return slices.ContainsFunc(es, func(e substrate.DirEntry) bool { return e.Dir && e.Name == id }), err
}

// exists reports whether a stream is there, by a listing.
func exists(v *substrate.Volume, stream string) (bool, error) {
	es, err := v.ListFresh(path.Join(v.MetaDir(), path.Dir(stream)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	for _, e := range es {
		if e.Name == path.Base(stream) && e.Dir {
			return true, err
		}
	}
	return false, err
}
