package main

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
)

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// segments checks that every segment a manifest names is there with all the bytes
// that exist of it. Files that no manifest names are a zombie's or leftovers, and
// are nobody's business here.
func (r *report) segments(v *substrate.Volume, streams []*stream) {
	for _, s := range streams {
		_, state, err := s.state(context.Background(), substrate.Position{})
		m, ok := state.(*partition.Manifest)
		if err != nil || !ok {
			continue // a fault of the stream, told already
		}
		for _, seg := range m.Segments {
			name := path.Join(path.Dir(s.path), seg.String())
			want := seg.Size
			if want < 0 {
				want = m.Recovery.Pos
			}
			r.segment(v, name, want)
		}
	}
}

func (r *report) segment(v *substrate.Volume, name string, want int64) {
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
