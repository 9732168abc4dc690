package substrate

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Spacer is an FS that knows how much room is left.
type Spacer interface {
	// Free is how many bytes may still be written. A quota may say no before.
	Free() (int64, error)
}

// ErrNoSpacer means that an FS does not know how much room is left.
var ErrNoSpacer = errors.New("the file system does not tell how much room is left")

// Free asks fs how many bytes may still be written.
func Free(fs FS) (int64, error) {
	if s, ok := fs.(Spacer); ok {
		return s.Free()
	}
	return 0, ErrNoSpacer
}

// Free implements Spacer. It is one call to the server.
func (d *DirFS) Free() (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(d.root, &st)
		switch {
		case err == nil:
			return int64(st.Bavail) * st.Bsize, nil
		case !errors.Is(err, unix.EINTR):
			return 0, &os.PathError{Op: "statfs", Path: d.root, Err: err}
		}
	}
}
