package rebuild

import (
	"context"
	"fmt"
	"path"
	"slices"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections/txns"
)

// asideExt is added to the name of an entry that is set aside. Nothing of ours has such a name.
const asideExt = ".aside"

// usable says why the state at a position of a stream cannot be gone on from, nil if it can.
type usable func(substrate.Position) error

// stray finds what a broker of before has written to a stream since the volume came back.
// Its entries go on from one that the volume has forgotten, and so come after a hole, or
// tell of bytes that are gone. upTo is the newest entry that can be used, and what comes
// after it is stray. Where none can be, that has another cause, and nothing is.
func (r *run) stray(stream string, ok usable) (upTo substrate.Position, stray []substrate.Position, err error) {
	newest, err := metalog.Newest(r.v, stream)
	if err != nil {
		return newest, nil, err
	}
	switch err := ok(newest); {
	case err == nil:
		return newest, nil, nil
	case !damaged(err): // it may be read the next time
		return newest, nil, err
	}
	ps, err := metalog.Positions(r.v, stream)
	if err != nil {
		return newest, nil, err
	}
	for _, p := range slices.Backward(ps) {
		if p.Less(newest) && ok(p) == nil {
			slices.Reverse(stray)
			return p, stray, nil
		}
		// What a broker wrote is whole. One that is not is damage of what may have counted.
		_, plug, err := metalog.ReadEntry(r.v, stream, p)
		if err != nil {
			return newest, nil, err
		}
		if !plug {
			stray = append(stray, p)
		}
	}
	return newest, nil, nil
}

// mend sets stray entries aside, and a HEAD that names one of them.
func (r *run) mend(stream string, ok usable) error {
	upTo, stray, err := r.stray(stream, ok)
	if err != nil || len(stray) == 0 || r.opt.breaks.noMend {
		return err
	}
	aside := func(name string) error { return r.v.Rename(name, name+asideExt) }
	for _, p := range stray {
		if err := aside(substrate.EntryPath(stream, p)); err != nil {
			return fmt.Errorf("set aside what was written after the volume came back: %w", err)
		}
	}
	for e := upTo.Epoch; e <= stray[len(stray)-1].Epoch; e++ {
		if h, there := r.v.ReadHead(stream, e); there && upTo.Less(h) {
			if err := aside(path.Join(stream, substrate.EpochName(e), substrate.HeadName)); err != nil {
				return err
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.note("%s: a broker went on after the volume came back, from what the volume has forgotten: %d entries from %s on are set aside (%s)",
		stream, len(stray), stray[0], asideExt)
	return nil
}

// loads is usable for a stream whose state is all there is to it.
func loads[S any](ctx context.Context, r *run, stream string, sc *metalog.Schema[S]) usable {
	return func(p substrate.Position) error {
		_, err := metalog.ReadStateAt(ctx, r.v, stream, p, sc)
		return err
	}
}

// hasFiles is usable for a manifest, whose files have to be there, too.
func (r *run) hasFiles(ctx context.Context, at txns.Partition) usable {
	stream := partition.ManifestStream(at.Topic, at.Index)
	return func(p substrate.Position) error {
		snap, err := metalog.ReadStateAt(ctx, r.v, stream, p, partition.ManifestSchema())
		if err != nil {
			return err
		}
		for _, s := range snap.State.Segments {
			want := s.Size
			if s.End < 0 {
				want = snap.State.Recovery.Pos
			}
			if err := r.holds(path.Join(partition.Dir(at.Topic, at.Index), s.SegmentID.String()), want); err != nil {
				return err
			}
		}
		return nil
	}
}

// holds is nil if a file has so many bytes.
func (r *run) holds(name string, bytes int64) error {
	f, err := r.v.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := f.Size()
	if err == nil && n < bytes {
		err = &substrate.DamageError{File: name, Offset: n, Cause: fmt.Sprintf("ends before byte %d", bytes)}
	}
	return err
}
