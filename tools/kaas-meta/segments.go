package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// segments checks that every segment a manifest names is there with all the bytes
// that exist of it. Files that no manifest names are a zombie's or leftovers, and
// are nobody's business here.
func (r *report) segments(v *substrate.Volume, streams []*stream) {
	for _, s := range streams {
		if !s.manifest {
			continue
		}
		_, state, err := s.state(context.Background(), substrate.Position{})
		m, ok := state.(*partition.Manifest)
		if err != nil || !ok {
			continue // a fault of the stream, told already
		}
		for _, seg := range m.Segments {
			r.segment(v, path.Dir(s.path), seg, m.Recovery)
		}
	}
}

func (r *report) segment(v *substrate.Volume, dir string, seg partition.Segment, rec partition.RecoveryPoint) {
	name := path.Join(dir, seg.String())
	if r.Deep {
		torn, err := partition.CheckSegment(v, dir, seg, rec)
		if err != nil {
			r.fault(name, "%v", err)
		} else if torn > 0 {
			r.Others = append(r.Others, metalog.Finding{File: name, Detail: fmt.Sprintf("%d bytes at its end are no whole batch: their writer ended before", torn)})
		}
		return
	}
	want := seg.Size
	if want < 0 {
		want = rec.Pos
	}
	f, err := v.Open(name)
	if err != nil {
		r.fault(name, "the manifest names it: %v", err)
		return
	}
	defer f.Close()
	if have, err := f.Size(); err != nil || have < want {
		r.fault(name, "has %d bytes of the %d that the manifest counts on (%v)", have, want, err)
	}
}
