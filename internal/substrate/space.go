package substrate

import (
	"errors"
	"math/rand/v2"
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

// Allocate makes f, which is empty, take n bytes of the volume. It asks for them where the
// file system can be asked, and otherwise writes what does not compress.
func Allocate(f File, n int64) error {
	if a, ok := f.(interface{ allocate(n int64) error }); ok {
		if err := a.allocate(n); !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	chunk := make([]byte, min(n, 1<<20))
	rnd := rand.NewChaCha8([32]byte{})
	for at := int64(0); at < n; at += int64(len(chunk)) {
		chunk = chunk[:min(int64(len(chunk)), n-at)]
		_, _ = rnd.Read(chunk) // never fails
		if _, err := f.WriteAt(chunk, at); err != nil {
			return err
		}
	}
	return nil
}

func (f *osFile) allocate(n int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, n)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
		}
	}
}

func (x *pooledFile) allocate(n int64) error {
	x.p.enter(x.o, x.o.changes)
	defer x.p.leave(x.o, x.o.changes)
	if a, ok := x.f.(interface{ allocate(n int64) error }); ok {
		return x.p.seen(a.allocate(n))
	}
	return errors.ErrUnsupported
}
