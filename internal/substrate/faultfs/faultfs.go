// Package faultfs wraps a substrate.FS with faults chosen call by call. It serves
// tests that want one fault at one place; nfssim serves those that want them all.
package faultfs

import (
	"syscall"

	"kaas.dev/kaas/internal/substrate"
)

// Op names a call: open, create, mkdir, rename, remove, list, syncdir, write,
// datasync, close or read.
type Op struct {
	Name string
	Path string // the target, for a rename
}

// Fault is what becomes of a call. The zero value lets it through.
type Fault struct {
	Err   error // returned instead of the call's own answer
	Apply bool  // the call is made first: a lost reply
}

// FS asks Hook before every call.
type FS struct {
	substrate.FS
	Hook func(Op) Fault
}

func (f *FS) do(name, path string, call func() error) error {
	ft := f.Hook(Op{name, path})
	if ft.Err == nil {
		return call()
	}
	if ft.Apply {
		if err := call(); err != nil {
			return err
		}
	}
	return ft.Err
}

// Open implements substrate.FS.
func (f *FS) Open(name string) (file substrate.File, err error) {
	err = f.do("open", name, func() error { file, err = f.FS.Open(name); return err })
	return f.wrap(name, file, err)
}

// CreateExclusive implements substrate.FS.
func (f *FS) CreateExclusive(name string) (file substrate.File, err error) {
	err = f.do("create", name, func() error { file, err = f.FS.CreateExclusive(name); return err })
	return f.wrap(name, file, err)
}

func (f *FS) wrap(name string, file substrate.File, err error) (substrate.File, error) {
	if err != nil {
		if file != nil {
			file.Close()
		}
		return nil, err
	}
	return &handle{file, f, name}, nil
}

// Mkdir implements substrate.FS.
func (f *FS) Mkdir(name string) error {
	return f.do("mkdir", name, func() error { return f.FS.Mkdir(name) })
}

// Rename implements substrate.FS.
func (f *FS) Rename(oldname, newname string) error {
	return f.do("rename", newname, func() error { return f.FS.Rename(oldname, newname) })
}

// Remove implements substrate.FS.
func (f *FS) Remove(name string) error {
	return f.do("remove", name, func() error { return f.FS.Remove(name) })
}

// List implements substrate.FS.
func (f *FS) List(name string) (es []substrate.DirEntry, err error) {
	err = f.do("list", name, func() error { es, err = f.FS.List(name); return err })
	return es, err
}

// SyncDir implements substrate.FS.
func (f *FS) SyncDir(name string) error {
	return f.do("syncdir", name, func() error { return f.FS.SyncDir(name) })
}

type handle struct {
	substrate.File
	fs   *FS
	name string
}

func (h *handle) ReadAt(p []byte, off int64) (n int, err error) {
	err = h.fs.do("read", h.name, func() error { n, err = h.File.ReadAt(p, off); return err })
	return n, err
}

// WriteAt writes the first half before a fault that applies: a short write.
func (h *handle) WriteAt(p []byte, off int64) (n int, err error) {
	ft := h.fs.Hook(Op{"write", h.name})
	if ft.Err == nil {
		return h.File.WriteAt(p, off)
	}
	if ft.Apply {
		n, _ = h.File.WriteAt(p[:len(p)/2], off)
	}
	return n, ft.Err
}

func (h *handle) Datasync() error { return h.fs.do("datasync", h.name, h.File.Datasync) }

func (h *handle) Close() error {
	ft := h.fs.Hook(Op{"close", h.name})
	err := h.File.Close() // the handle is gone whatever close answers
	if ft.Err != nil {
		return ft.Err
	}
	return err
}

// Once returns a hook that answers f at the n-th call (from 1) that match accepts.
func Once(n int, f Fault, match func(Op) bool) func(Op) Fault {
	seen := 0
	return func(op Op) Fault {
		if match(op) {
			if seen++; seen == n {
				return f
			}
		}
		return Fault{}
	}
}

// EIO and ENOSPC are the usual faults.
var (
	EIO    error = syscall.EIO
	ENOSPC error = syscall.ENOSPC
)
