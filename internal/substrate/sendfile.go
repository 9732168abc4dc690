package substrate

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Sendable is a [File] whose bytes the kernel can move to a socket by itself. Not
// every File is one: ask with a type assertion.
type Sendable interface {
	// Sendfile moves up to n bytes from byte off on to a socket that does not block,
	// and returns how many it took: 0 and no error at the end of the file, EAGAIN where
	// the socket takes no more. It may wait for the volume, never for the socket.
	Sendfile(socket uintptr, off int64, n int) (int, error)
}

// SendTo has n bytes of a file, from byte off on, go to a socket, and returns how many
// did. It waits for the socket as long as its write deadline allows, and holds nothing
// of the volume while it does. A file that ends before is io.ErrUnexpectedEOF.
func SendTo(socket syscall.RawConn, f Sendable, off, n int64) (sent int64, err error) {
	for sent < n && err == nil {
		m := 0
		werr := socket.Write(func(fd uintptr) bool {
			m, err = f.Sendfile(fd, off+sent, int(min(n-sent, 1<<30)))
			return !errors.Is(err, syscall.EAGAIN)
		})
		switch {
		case werr != nil:
			err = werr
		case err == nil && m == 0:
			err = io.ErrUnexpectedEOF
		}
		sent += int64(m)
	}
	return sent, err
}

// Sendfile implements [Sendable].
func (f *osFile) Sendfile(socket uintptr, off int64, n int) (int, error) {
	for {
		m, err := unix.Sendfile(int(socket), int(f.Fd()), &off, n)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return max(m, 0), &os.PathError{Op: "sendfile", Path: f.Name(), Err: err}
		}
		return m, nil
	}
}
