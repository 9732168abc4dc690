package check

import (
	"io/fs"

	"kaas.dev/kaas/internal/substrate"
)

// readOnly is a volume that cannot be changed through.
type readOnly struct{ substrate.FS }

func refuse(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrPermission} }

// CreateExclusive implements substrate.FS.
func (readOnly) CreateExclusive(name string) (substrate.File, error) {
	return nil, refuse("create", name)
}

// Mkdir implements substrate.FS.
func (readOnly) Mkdir(name string) error { return refuse("mkdir", name) }

// Rename implements substrate.FS.
func (readOnly) Rename(_, name string) error { return refuse("rename", name) }

// Remove implements substrate.FS.
func (readOnly) Remove(name string) error { return refuse("remove", name) }

// SyncDir implements substrate.FS.
func (readOnly) SyncDir(name string) error { return refuse("syncdir", name) }

// Glance implements substrate.Glancer: files of a stream are read once, and whoever wants
// to replace one is not to wait for this reader.
func (r readOnly) Glance(name string) (substrate.File, error) {
	if g, ok := r.FS.(substrate.Glancer); ok {
		return g.Glance(name)
	}
	return r.Open(name)
}
