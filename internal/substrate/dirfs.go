package substrate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// DirFS is the real FS: a directory of this host, on NFS or a local disk.
type DirFS struct {
	root string
	made []string // by MakeDir, outermost first
	nfs  func() bool
	mode os.FileMode // when it was opened

	fileMode, dirMode os.FileMode // of what is made in it
}

// OpenDir returns the FS rooted at dir, which must exist.
func OpenDir(dir string) (*DirFS, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", dir, err)
	}
	fi, err := os.Stat(abs)
	if err != nil {
		return nil, fmt.Errorf("open volume: %w", err)
	}
	if !fi.IsDir() {
		return nil, fmt.Errorf("open volume: %s is not a directory", abs)
	}
	d := &DirFS{root: abs, mode: fi.Mode().Perm(), fileMode: 0o644, dirMode: 0o755}
	d.nfs = sync.OnceValue(func() bool {
		m, err := d.Mount()
		return err == nil && m.NFS()
	})
	return d, nil
}

// MakeDir makes dir and its missing parents, then opens it. Every process may
// race here: a directory that exists is what all of them want. What it makes dir
// is its owner's alone, for there are secrets on a volume.
func MakeDir(dir string) (*DirFS, error) {
	made, err := mkdirAll(dir, 0o700)
	if err != nil {
		removeAll(made)
		return nil, fmt.Errorf("make volume: %w", err)
	}
	d, err := OpenDir(dir)
	if err != nil {
		removeAll(made)
		return nil, err
	}
	d.made = made
	return d, nil
}

// Unmake removes the directories that MakeDir has made, as far as they are empty.
func (d *DirFS) Unmake() { removeAll(d.made) }

// mkdirAll returns which directories it made, outermost first, also with an error.
func mkdirAll(dir string, mode os.FileMode) (made []string, err error) {
	err = os.Mkdir(dir, mode)
	if parent := filepath.Dir(dir); errors.Is(err, os.ErrNotExist) && parent != dir {
		if made, err = mkdirAll(parent, 0o755); err != nil {
			return made, err
		}
		err = os.Mkdir(dir, mode)
	}
	if err == nil {
		return append(made, dir), nil
	}
	if fi, serr := os.Stat(dir); serr == nil && fi.IsDir() {
		return made, nil
	}
	return made, err
}

// removeAll removes empty directories, innermost first.
func removeAll(dirs []string) {
	for i := len(dirs) - 1; i >= 0 && os.Remove(dirs[i]) == nil; i-- {
	}
}

// Private has what is made from now on be its owner's alone, as all on a volume is to be. It is
// called before anything is made.
func (d *DirFS) Private() { d.fileMode, d.dirMode = 0o600, 0o700 }

// Mode is the directory's own, as it was opened.
func (d *DirFS) Mode() os.FileMode { return d.mode }

// Root is the absolute path of the directory.
func (d *DirFS) Root() string { return d.root }

func (d *DirFS) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// Open implements FS.
func (d *DirFS) Open(name string) (File, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// Glance implements Glancer. Linux's NFS client asks for no delegation where a file is
// opened for direct reading, which has no further conditions there. Elsewhere nobody gives
// delegations, and direct reading has conditions.
func (d *DirFS) Glance(name string) (File, error) {
	if !d.nfs() {
		return d.Open(name)
	}
	f, err := os.OpenFile(d.path(name), os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, syscall.EINVAL) {
		return d.Open(name)
	}
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// CreateExclusive implements FS.
func (d *DirFS) CreateExclusive(name string) (File, error) {
	f, err := os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, d.fileMode)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// Mkdir implements FS.
func (d *DirFS) Mkdir(name string) error { return os.Mkdir(d.path(name), d.dirMode) }

// Rename implements FS. It is the bare system call: os.Rename looks at the target
// first, and a look answered from the client's cache would decide in the server's place.
func (d *DirFS) Rename(oldname, newname string) error {
	o, n := d.path(oldname), d.path(newname)
	for {
		err := unix.Renameat(unix.AT_FDCWD, o, unix.AT_FDCWD, n)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return &os.LinkError{Op: "rename", Old: o, New: n, Err: err}
		}
		return nil
	}
}

// Remove implements FS.
func (d *DirFS) Remove(name string) error { return os.Remove(d.path(name)) }

// List implements FS.
func (d *DirFS) List(name string) ([]DirEntry, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	des, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	out := make([]DirEntry, len(des))
	for i, de := range des {
		out[i] = DirEntry{Name: de.Name(), Dir: de.IsDir(), Irregular: !de.IsDir() && !de.Type().IsRegular()}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// SyncDir implements FS. On NFS the client has nothing to do for it: the server,
// exported sync, answered the change only when it was durable.
func (d *DirFS) SyncDir(name string) error {
	f, err := os.Open(d.path(name))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

type osFile struct{ *os.File }

func (f *osFile) Size() (int64, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f *osFile) Datasync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
		return nil
	}
}
