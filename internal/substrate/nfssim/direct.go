package nfssim

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"kaas.dev/kaas/internal/substrate"
)

// direct is the server's own view: nothing parks, nothing is cached, everything
// is durable at once.
type direct struct{ s *Sim }

// Server is the truth, for oracles and for making a volume's first state.
func (s *Sim) Server() substrate.FS { return direct{s} }

// in runs f on the directory and last name of path.
func (d direct) in(k Kind, path string, f func(dir *inode, base string) error) error {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.clock()
	dir, base, err := d.s.srv.walk(path)
	if err == nil {
		err = f(dir, base)
	}
	if err == nil {
		d.s.srv.syncDir(dir)
		return nil
	}
	return Op{Kind: k, Name: path}.wrap(err)
}

func (d direct) Open(name string) (substrate.File, error) {
	var x *directFile
	err := d.in(OpOpen, name, func(dir *inode, base string) error {
		i := child(dir, base)
		switch {
		case i == nil:
			return syscall.ENOENT
		case i.isDir:
			return syscall.EISDIR
		}
		x = &directFile{s: d.s, i: i}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (d direct) CreateExclusive(name string) (substrate.File, error) {
	var x *directFile
	err := d.in(OpCreate, name, func(dir *inode, base string) error {
		i, err := d.s.srv.make(dir, base, false)
		x = &directFile{s: d.s, i: i}
		return err
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (d direct) Mkdir(name string) error {
	return d.in(OpMkdir, name, func(dir *inode, base string) error {
		_, err := d.s.srv.make(dir, base, true)
		return err
	})
}

func (d direct) Remove(name string) error {
	return d.in(OpRemove, name, func(dir *inode, base string) error {
		i, err := d.s.srv.remove(dir, base)
		if err == nil {
			d.s.recall(i, nil)
		}
		return err
	})
}

func (d direct) Rename(oldname, newname string) error {
	err := d.in(OpRename, newname, func(dd *inode, dn string) error {
		sd, sn, err := d.s.srv.walk(oldname)
		if err != nil {
			return err
		}
		old, err := d.s.srv.rename(sd, sn, dd, dn)
		if err != nil {
			return err
		}
		if old != nil {
			d.s.recall(old, nil)
		}
		d.s.recall(child(dd, dn), nil)
		d.s.srv.syncDir(sd)
		return nil
	})
	if e, ok := err.(*os.LinkError); ok {
		e.Old, e.New = oldname, newname
	}
	return err
}

func (d direct) List(name string) (l []substrate.DirEntry, err error) {
	err = d.in(OpList, name, func(dir *inode, base string) error {
		i := child(dir, base)
		switch {
		case i == nil:
			return syscall.ENOENT
		case !i.isDir:
			return syscall.ENOTDIR
		}
		l = slices.Clone(i.list())
		return nil
	})
	return l, err
}

func (d direct) SyncDir(name string) error {
	_, err := d.List(name)
	return err
}

// HardLink gives a file a second name on the server, as a backup by hard links
// does; kaas never does.
func (s *Sim) HardLink(oldname, newname string) error {
	d := direct{s}
	return d.in(OpCreate, newname, func(dd *inode, dn string) error {
		sd, sn, err := s.srv.walk(oldname)
		if err != nil {
			return err
		}
		i := child(sd, sn)
		switch {
		case i == nil:
			return syscall.ENOENT
		case i.isDir:
			return syscall.EPERM
		case dd.kids[dn] != nil:
			return syscall.EEXIST
		}
		if err := usable(dd, dn); err != nil {
			return err
		}
		i.nlink++
		s.srv.apply(edit{dd, dn, i})
		return nil
	})
}

// directFile is a file on the server itself.
type directFile struct {
	s      *Sim
	i      *inode
	closed bool
}

func (x *directFile) ReadAt(b []byte, off int64) (int, error) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	if off >= int64(len(x.i.data)) {
		return 0, io.EOF
	}
	n := copy(b, x.i.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (x *directFile) WriteAt(b []byte, off int64) (int, error) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	x.s.recall(x.i, nil)
	x.i.put(off, b)
	x.i.stable = put(x.i.stable, off, b)
	x.i.ver++
	return len(b), nil
}

func (x *directFile) Size() (int64, error) {
	x.s.mu.Lock()
	defer x.s.mu.Unlock()
	return int64(len(x.i.data)), nil
}

func (x *directFile) Datasync() error { return nil }

func (x *directFile) Close() error {
	if x.closed {
		return fs.ErrClosed
	}
	x.closed = true
	return nil
}
