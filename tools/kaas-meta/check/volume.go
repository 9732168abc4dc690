package check

import (
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

const (
	volumeDir   = "volume"
	metaDir     = "meta"
	topicsDir   = "topics"
	electionDir = "election"
)

// ballast is how the names of the files begin that brokers give up when the volume is full.
const ballast = substrate.DeletedPrefix + "ballast~"

var errNoVolume = errors.New("not a kaas volume: neither volume/ nor meta/ nor topics/ is there")

// volume reads the volume's ID. Where that cannot be had, but metadata of only one ID is
// there, the check goes on with that.
func (e *engine) volume() (*seen, error) {
	s := &seen{}
	es, err := e.v.ListFresh(".")
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, de := range es {
		there[de.Name] = true
	}
	if !there[volumeDir] && !there[metaDir] && !there[topicsDir] {
		return nil, errNoVolume
	}
	name := volumeDir + "/id"
	es, _ = e.v.ListFresh(volumeDir)
	if slices.ContainsFunc(es, func(de substrate.DirEntry) bool { return de.Name == "id" && de.Irregular }) {
		s.fault(kindVolume, name, "is no regular file")
	} else if v, err := substrate.ReadVolume(e.v.FS); err != nil {
		s.fault(kindVolume, name, "%v", err)
	} else {
		e.v.ID = v.ID
		return s, nil
	}
	if ids := e.metaIDs(); len(ids) == 1 {
		e.v.ID = ids[0]
		s.note(kindVolume, name, "metadata of %s is there, of no other volume: it was checked", ids[0])
	}
	return s, nil
}

// metaIDs are the volume IDs below meta/.
func (e *engine) metaIDs() (ids []string) {
	es, err := e.v.ListFresh(metaDir)
	if err != nil {
		return nil // told where meta/ is looked at
	}
	for _, de := range es {
		if de.Dir && !substrate.IsTemporary(de.Name) {
			ids = append(ids, de.Name)
		}
	}
	return ids
}

// rootUnit is the volume's directory, and volume/.
type rootUnit struct{}

func (rootUnit) look(_ context.Context, e *engine) *seen {
	s := &seen{}
	es, _ := s.list(e, ".")
	for _, de := range es {
		switch de.Name {
		case volumeDir, metaDir, topicsDir, electionDir, substrate.SessionsDir:
			s.isDir("", de)
		default:
			if !strings.HasPrefix(de.Name, ballast) {
				s.other(e, "", de)
			}
		}
	}
	es, _ = s.list(e, volumeDir)
	for _, de := range es {
		if de.Name != "id" {
			s.other(e, volumeDir, de)
		}
	}
	return s
}

// electionUnit is election/. Nothing that must be safe rests on its records, and a crash
// may tear them; but what has the name of one and is none stands in the way.
type electionUnit struct{}

func (electionUnit) look(_ context.Context, e *engine) *seen {
	s := &seen{}
	es, _ := s.list(e, electionDir)
	for _, de := range es {
		name := path.Join(electionDir, de.Name)
		switch {
		case !digits(de.Name):
			s.other(e, electionDir, de)
		case len(de.Name) != 20:
			s.fault(metalog.KindName, name, "is no record's name (20 digits)")
		case de.Dir || de.Irregular:
			s.fault(metalog.KindName, name, "is no regular file: once it is the newest number, nobody can be elected")
		default:
			s.record(e, name)
		}
	}
	return s
}

func (s *seen) record(e *engine, name string) {
	b, err := e.v.ReadFile(name)
	switch {
	case isNotExist(err): // pruned
	case err != nil:
		s.fault(metalog.KindUnreadable, name, "%v", err)
	default:
		if _, err := substrate.DecodeFrame(name, substrate.Kind{'e', 'l', 'e', 'c'}, b); err != nil {
			s.note(kindElection, name, "%v", err)
		}
	}
}
