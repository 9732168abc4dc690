package nfssim

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"

	"kaas.dev/kaas/internal/substrate"
)

// maxName is the longest name that the server takes, in bytes.
const maxName = 255

// inode is a file or directory on the server.
type inode struct {
	id    uint64
	isDir bool
	nlink int    // names it has; 0 is dead
	ver   uint64 // change counter

	// A directory's.
	parent  *inode
	kids    map[string]*inode
	disk    map[string]*inode // Local: what a power loss leaves
	listing []substrate.DirEntry
	listVer uint64

	fileData
	opens   int     // handles on any host
	writers int     // of them, writing
	delegs  []*Host // who holds a read delegation, as the server knows
}

// server is the truth: the tree, and on a local disk what of it is not durable.
type server struct {
	root    *inode
	lastID  uint64
	local   bool
	rng     *rand.Rand
	journal []nsOp
}

func newServer(local bool, rng *rand.Rand) *server {
	v := &server{local: local, rng: rng}
	v.root = v.newInode(true)
	v.root.nlink = 1
	return v
}

func (v *server) newInode(dir bool) *inode {
	v.lastID++
	i := &inode{id: v.lastID, isDir: dir, ver: 1}
	if dir {
		i.kids = map[string]*inode{}
		if v.local {
			i.disk = map[string]*inode{}
		}
	}
	return i
}

// edit is a directory entry set (or, with a nil inode, removed).
type edit struct {
	dir  *inode
	name string
	ino  *inode
}

// apply makes one atomic change of the tree.
func (v *server) apply(edits ...edit) {
	for _, e := range edits {
		if e.ino == nil {
			delete(e.dir.kids, e.name)
		} else {
			e.dir.kids[e.name] = e.ino
		}
		e.dir.ver++
	}
	if v.local {
		v.record(edits)
	}
}

// usable reports whether name may be made in d.
func usable(d *inode, name string) error {
	switch {
	case !d.isDir:
		return syscall.ENOTDIR
	case d.nlink == 0:
		return syscall.ENOENT
	case len(name) > maxName:
		return syscall.ENAMETOOLONG
	case name == "":
		return syscall.EEXIST // the root
	}
	return nil
}

// make creates a file or directory that must not exist.
func (v *server) make(d *inode, name string, dir bool) (*inode, error) {
	if err := usable(d, name); err != nil {
		return nil, err
	}
	if d.kids[name] != nil {
		return nil, syscall.EEXIST
	}
	i := v.newInode(dir)
	i.nlink = 1
	if dir {
		i.parent = d
	}
	v.apply(edit{d, name, i})
	return i, nil
}

// rename moves sn in sd to dn in dd and returns the inode it replaced.
func (v *server) rename(sd *inode, sn string, dd *inode, dn string) (replaced *inode, err error) {
	if sn == "" || dn == "" {
		return nil, syscall.EBUSY
	}
	for _, c := range []edit{{sd, sn, nil}, {dd, dn, nil}} {
		if err := usable(c.dir, c.name); err != nil {
			return nil, err
		}
	}
	src, dst := sd.kids[sn], dd.kids[dn]
	if src == nil {
		return nil, syscall.ENOENT
	}
	if src == dst {
		return nil, nil
	}
	if err := v.mayReplace(src, dst, dd); err != nil {
		return nil, err
	}
	if dst != nil {
		dst.nlink--
	}
	if src.isDir {
		src.parent = dd
	}
	src.ver++
	v.apply(edit{sd, sn, nil}, edit{dd, dn, src})
	return dst, nil
}

// mayReplace answers as knfsd and ganesha do; RFC 8881 lets them differ.
func (v *server) mayReplace(src, dst, dd *inode) error {
	if src.isDir {
		for p := dd; p != nil; p = p.parent {
			if p == src {
				return syscall.EINVAL
			}
		}
	}
	switch {
	case dst == nil || !src.isDir && !dst.isDir:
		return nil
	case !src.isDir:
		return v.either(2, syscall.EISDIR, syscall.EEXIST)
	case !dst.isDir:
		return syscall.ENOTDIR
	case len(dst.kids) > 0:
		return v.either(4, syscall.ENOTEMPTY, syscall.EEXIST)
	}
	return nil
}

// either returns a, or on NFS once in n times b.
func (v *server) either(n int, a, b error) error {
	if !v.local && v.rng.IntN(n) == 0 {
		return b
	}
	return a
}

func (v *server) remove(d *inode, name string) (*inode, error) {
	if name == "" {
		return nil, syscall.EBUSY
	}
	if err := usable(d, name); err != nil {
		return nil, err
	}
	i := d.kids[name]
	if i == nil {
		return nil, syscall.ENOENT
	}
	if len(i.kids) > 0 {
		return nil, v.notEmpty(i)
	}
	i.nlink--
	v.apply(edit{d, name, nil})
	return i, nil
}

// notEmpty is the answer to removing d: a client says EBUSY where it knows that
// a silly-renamed file is in it.
func (v *server) notEmpty(d *inode) error {
	for n := range d.kids {
		if strings.HasPrefix(n, sillyPrefix) {
			return v.either(2, syscall.ENOTEMPTY, syscall.EBUSY)
		}
	}
	return syscall.ENOTEMPTY
}

// list returns the entries, sorted; the result is shared and not to be changed.
func (i *inode) list() []substrate.DirEntry {
	if i.listVer != i.ver {
		l := make([]substrate.DirEntry, 0, len(i.kids))
		for n, k := range i.kids {
			l = append(l, substrate.DirEntry{Name: n, Dir: k.isDir})
		}
		slices.SortFunc(l, func(a, b substrate.DirEntry) int { return strings.Compare(a.Name, b.Name) })
		i.listing, i.listVer = l, i.ver
	}
	return i.listing
}

// walk resolves a path on the server and gives its parent and last name; the
// root's name is "".
func (v *server) walk(path string) (dir *inode, base string, err error) {
	return walk(v.root, path, func(d *inode, name string) (*inode, error) { return d.kids[name], nil })
}

// walk follows path from root, asking lookup for each directory on the way.
func walk(root *inode, path string, lookup func(*inode, string) (*inode, error)) (*inode, string, error) {
	if path == "." || path == "" {
		return root, "", nil
	}
	d := root
	for {
		name, rest, more := strings.Cut(path, "/")
		if name == "" || name == "." || name == ".." {
			return nil, "", syscall.EINVAL
		}
		if !more {
			return d, name, nil
		}
		next, err := lookup(d, name)
		switch {
		case err != nil:
			return nil, "", err
		case len(name) > maxName:
			return nil, "", syscall.ENAMETOOLONG
		case next == nil:
			return nil, "", syscall.ENOENT
		case !next.isDir:
			return nil, "", syscall.ENOTDIR
		}
		d, path = next, rest
	}
}

// child is the inode that walk's answer names.
func child(d *inode, base string) *inode {
	if base == "" {
		return d
	}
	return d.kids[base]
}
