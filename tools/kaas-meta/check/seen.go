package check

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// seen is what one look at a unit has shown.
type seen struct {
	findings []metalog.Finding
	counts   Counts
	// judge, if any, compares it with a state of the cluster that was read later.
	judge func(*seen, *projections.Cluster)
	below []unit // units found in it
}

func (s *seen) fault(kind, file, format string, a ...any) {
	s.findings = append(s.findings, metalog.Finding{Kind: kind, File: file, Fault: true, Detail: fmt.Sprintf(format, a...)})
}

func (s *seen) note(kind, file, format string, a ...any) {
	s.findings = append(s.findings, metalog.Finding{Kind: kind, File: file, Detail: fmt.Sprintf(format, a...)})
}

// list lists a directory. Where that fails, ok is false, and it is told unless there is no
// such directory.
func (s *seen) list(e *engine, dir string) (es []substrate.DirEntry, ok bool) {
	es, err := e.v.ListFresh(dir)
	if err != nil && !isNotExist(err) {
		s.fault(metalog.KindUnreadable, dir, "%v", err)
	}
	return es, err == nil
}

// other is for a name that its directory does not expect.
func (s *seen) other(e *engine, dir string, de substrate.DirEntry) {
	name := path.Join(dir, de.Name)
	switch {
	case strings.HasPrefix(de.Name, ".nfs"):
		s.note(kindNFS, name, "was removed while a process had it open")
	case strings.HasPrefix(de.Name, substrate.DeletedPrefix):
		s.note(kindDeleted, name, "its removal has begun")
	case !substrate.IsTemporary(de.Name):
		s.note(kindUnknown, name, "is none of ours")
	default:
		owner, ok := substrate.TempOwner(de.Name)
		switch {
		case ok && e.living(owner):
			s.counts.InProgress++
		case ok && e.isSession(owner):
			s.note(kindLeftover, name, "session %s had begun it, and is sealed", owner)
		default:
			s.note(kindLeftover, name, "had been begun, and no session tells whether somebody still is at it")
		}
	}
}

// whole reports that a name is a directory, or tells that it is none.
func (s *seen) isDir(dir string, de substrate.DirEntry) bool {
	if !de.Dir {
		s.fault(metalog.KindName, path.Join(dir, de.Name), "is a file where a directory should be")
	}
	return de.Dir
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// digits reports a name of nothing but digits, as most of ours are.
func digits(name string) bool { return name != "" && strings.Trim(name, "0123456789") == "" }
