package substrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

// Volume is one process's access to the shared volume.
type Volume struct {
	FS
	// NewID makes names that nobody else makes. Nil means random UUIDs.
	NewID func() string
	// Breaks is for tests of the tests.
	Breaks Breaks
	// ID is the volume's own ID, set by OpenVolume; metadata lives below meta/<ID>.
	ID string
}

func (v *Volume) newID() string {
	if v.NewID != nil {
		return v.NewID()
	}
	return uuid.NewString()
}

// TempName returns a name in dir that only this session's process uses.
func (v *Volume) TempName(dir, session string) string {
	return path.Join(dir, newPrefix+session+"~"+v.newID())
}

func (v *Volume) syncDir(dir string) error {
	if v.Breaks.NoDirSync {
		return nil
	}
	return v.SyncDir(dir)
}

// WriteFile creates name, which must not exist, and makes its bytes durable. The
// directory is not synced. A failed file is left to whoever removes temporaries.
func (v *Volume) WriteFile(name string, data []byte) error {
	f, err := v.CreateExclusive(name)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		f.Close()
		return err
	}
	if err := f.Datasync(); err != nil {
		f.Close()
		return err
	}
	// NFS may report a lost write only here.
	return f.Close()
}

// WriteTemp writes data to a new temporary file in dir and makes it durable. On
// an error nothing is left behind that matters.
func (v *Volume) WriteTemp(dir, session string, data []byte) (string, error) {
	tmp := v.TempName(dir, session)
	if err := v.WriteFile(tmp, data); err != nil {
		_ = v.Remove(tmp) // best effort: a leftover is ignored, and removed by who seals the session
		return "", err
	}
	return tmp, nil
}

// ReplaceFile puts data at dir/name: rule 1. An error wrapping ErrUnknown means
// that the rename may have happened, ErrNotDurable that it has but may not
// survive; any other that it did not happen.
func (v *Volume) ReplaceFile(dir, name, session string, data []byte) error {
	tmp, err := v.WriteTemp(dir, session, data)
	if err != nil {
		return err
	}
	return v.Install(tmp, dir, name, data)
}

// Install renames tmp, which holds data, to dir/name and syncs dir.
func (v *Volume) Install(tmp, dir, name string, data []byte) error {
	target := path.Join(dir, name)
	if err := v.Rename(tmp, target); err != nil {
		// The reply may be lost (rule 2): look at the target before deciding.
		if got, rerr := v.ReadFile(target); rerr != nil || !bytes.Equal(got, data) {
			return fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
	if err := v.syncDir(dir); err != nil {
		return fmt.Errorf("%w: %w", ErrNotDurable, err)
	}
	return nil
}

// ReadFile opens name and reads it whole. A handle that went stale is answered by
// listing the directory, which drops the client's cached one, and opening again.
func (v *Volume) ReadFile(name string) ([]byte, error) {
	const tries = 8
	for i := 0; ; i++ {
		b, err := readOnce(v.FS, name)
		if err == nil || !errors.Is(err, syscall.ESTALE) || i == tries {
			return b, err
		}
		if _, err := v.List(path.Dir(name)); err != nil && !errors.Is(err, syscall.ESTALE) {
			return nil, err
		}
	}
}

func readOnce(fs FS, name string) ([]byte, error) {
	f, err := glance(fs, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		return nil, err
	}
	if n > MaxFrame+FrameHeader {
		return nil, &DamageError{File: name, Offset: 0, Cause: fmt.Sprintf("%d bytes is more than any file of this kind has", n)}
	}
	b := make([]byte, n)
	m, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:m], nil
}

// ListFresh lists a directory, answering ESTALE by listing its parent and trying again.
func (v *Volume) ListFresh(dir string) ([]DirEntry, error) {
	const tries = 8
	for i := 0; ; i++ {
		es, err := v.List(dir)
		if err == nil || !errors.Is(err, syscall.ESTALE) || i == tries {
			return es, err
		}
		_, _ = v.List(path.Dir(dir)) // drops the cached handle; its own error shows at the next try
	}
}

// EnsureDir makes dir, whose parent exists, unless it is there, and makes the
// name durable. EEXIST is the end-state whoever made it (rule 2).
func (v *Volume) EnsureDir(dir string) error {
	if err := v.Mkdir(dir); err != nil && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	return v.syncDir(path.Dir(dir))
}

// Discard removes a temporary directory that a rename may be about to put in place,
// or just has: one's own after an ambiguous answer, or a sealed session's. It is
// renamed to a ~deleted~ name first, which the server lets only one of the two
// renames win (rule 1), and emptied there. Emptying it under its own name would
// reach, through this host's cached handle, into the directory where it now is.
func (v *Volume) Discard(dir string) error {
	away := path.Join(path.Dir(dir), DeletedPrefix+strings.TrimPrefix(path.Base(dir), newPrefix))
	if err := v.Rename(dir, away); err != nil {
		if isNotExist(err) {
			return nil // renamed into place, discarded by another, or our own lost reply: anyone removes it later
		}
		return err
	}
	return v.RemoveTree(away)
}

// RemoveTree drives a directory to being gone (rule 2). No other process may be
// about to rename it: see [Volume.Discard]. It tolerates whoever does
// the same; a name still held open elsewhere (.nfs*) makes it return an error, and
// the caller calls again later.
func (v *Volume) RemoveTree(dir string) error {
	es, err := v.List(dir)
	if err != nil {
		if isNotExist(err) {
			return nil
		}
		return err
	}
	var errs []error
	for _, e := range es {
		p := path.Join(dir, e.Name)
		if e.Dir {
			errs = append(errs, v.RemoveTree(p))
		} else if err := v.Remove(p); err != nil && !isNotExist(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := v.Remove(dir); err != nil && !isNotExist(err) {
		return err
	}
	return nil
}
