package substrate

import "io"

// FS is a host's view of the volume. Names are slash-separated and relative to
// the volume's root. There is no stat and no way to write to a file that somebody
// else made: a file is written only through the handle that created it.
//
// Calls may block for as long as the volume hangs and cannot be cancelled.
// Errors are *fs.PathError (or os.LinkError) around a syscall.Errno.
type FS interface {
	// Open opens an existing file for reading. It is an open on the wire: it
	// sees what other hosts closed or fsynced before, in normal running.
	Open(name string) (File, error)
	// CreateExclusive creates a file that must not exist, open for reading and
	// writing. EEXIST may be one's own success with its reply lost.
	CreateExclusive(name string) (File, error)
	// Mkdir makes a directory that must not exist.
	Mkdir(name string) error
	// Rename replaces newname atomically. ENOENT may be one's own success.
	Rename(oldname, newname string) error
	// Remove unlinks a file or removes an empty directory.
	Remove(name string) error
	// List opens the directory anew and returns its names, sorted.
	List(name string) ([]DirEntry, error)
	// SyncDir makes earlier creates, renames and removes in the directory durable.
	SyncDir(name string) error
}

// Glancer is an FS that can open a file for one reading, without the server's promise to
// tell before it lets others replace or remove the file (an NFS read delegation). A host
// that is gone, or stands still, keeps such a promise for as long as its lease lasts, 90 s
// where nobody has changed that, and whoever wants to replace the file waits.
type Glancer interface {
	Glance(name string) (File, error)
}

// glance opens a file for one reading.
func glance(fs FS, name string) (File, error) {
	if g, ok := fs.(Glancer); ok {
		return g.Glance(name)
	}
	return fs.Open(name)
}

// DirEntry is a name in a directory and whether it names a directory.
type DirEntry struct {
	Name string
	Dir  bool
	// Irregular is neither a directory nor a regular file: a symbolic link, a pipe, a
	// device. Nothing of ours is; opening one may hang.
	Irregular bool
}

// File is an open file. Handles from Open are read-only.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size is the length the server knows at the open, plus what was written
	// through this handle. It is not a way to learn news.
	Size() (int64, error)
	// Datasync makes the file's data durable. After an error the handle is dead:
	// a second call that succeeds proves nothing.
	Datasync() error
}
