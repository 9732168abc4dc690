package substrate

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// capacious is an FS that knows its size.
type capacious interface {
	Capacity() (total, free int64, err error)
}

// Capacity asks fs how many bytes it has, and how many may still be written.
func Capacity(fs FS) (total, free int64, err error) {
	if c, ok := fs.(capacious); ok {
		return c.Capacity()
	}
	return 0, 0, ErrNoSpacer
}

// Capacity tells of the file system that the directory is in. It is one call to the
// server.
func (d *DirFS) Capacity() (total, free int64, err error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(d.root, &st)
		switch {
		case err == nil:
			return int64(st.Blocks) * st.Bsize, int64(st.Bavail) * st.Bsize, nil
		case !errors.Is(err, unix.EINTR):
			return 0, 0, &os.PathError{Op: "statfs", Path: d.root, Err: err}
		}
	}
}

// Capacity is that of the FS beneath.
func (p *Pool) Capacity() (total, free int64, err error) {
	err = p.read("statfs", func() error { total, free, err = Capacity(p.fs); return err })
	return total, free, err
}
