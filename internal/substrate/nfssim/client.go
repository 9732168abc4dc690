package nfssim

import (
	"errors"
	"syscall"

	"kaas.dev/kaas/internal/substrate"
)

// maxSeen is how many earlier listings of a directory a host may answer with.
const maxSeen = 4

// hostDir is what a host caches of a directory.
type hostDir struct {
	ver   uint64 // the change counter it last saw
	until int64  // when it asks for the counter again
	names map[string]dentry
	seen  [][]substrate.DirEntry // since the host's own last change
}

// dentry is a name that the host looked up; its inode is nil if it was absent.
// It is trusted while the directory's counter is, as far as the host knows, the
// one of the lookup.
type dentry struct {
	ino   *inode
	ver   uint64
	until int64 // of an absent name
}

func (h *Host) dir(d *inode) *hostDir {
	hd := h.dirs[d]
	if hd == nil {
		hd = &hostDir{names: map[string]dentry{}}
		h.dirs[d] = hd
		h.revalidate(d, hd)
	}
	return hd
}

// revalidate asks the server for the counter; a change distrusts every name.
func (h *Host) revalidate(d *inode, hd *hostDir) {
	if hd.ver != d.ver {
		clear(hd.names)
	}
	hd.ver, hd.until = d.ver, h.s.now+int64(h.s.cfg.DirTTL)
}

// changed is the host's own change of d: it drops what it cached of it.
func (h *Host) changed(d *inode) {
	if h.s.cfg.Local {
		return
	}
	hd := h.dir(d)
	h.revalidate(d, hd)
	clear(hd.seen)
	hd.seen = hd.seen[:0]
}

// cached returns the trusted dentry of name, asking for the counter of d if the
// time is over.
func (h *Host) cached(d *inode, name string) (dentry, bool) {
	hd := h.dir(d)
	if hd.until <= h.s.now {
		h.revalidate(d, hd)
	}
	e, ok := hd.names[name]
	return e, ok && (e.ino != nil || h.s.now < e.until)
}

// ask looks name up on the server.
func (h *Host) ask(d *inode, name string) (*inode, error) {
	if d.nlink == 0 {
		return nil, syscall.ESTALE
	}
	i, hd := d.kids[name], h.dir(d)
	hd.names[name] = dentry{ino: i, ver: hd.ver, until: h.s.now + int64(h.s.cfg.NegTTL)}
	return i, nil
}

// lookup answers from the cache if it may.
func (h *Host) lookup(d *inode, name string) (*inode, error) {
	if e, ok := h.cached(d, name); ok {
		return e.ino, nil
	}
	return h.ask(d, name)
}

// walk finds the directory of a path through cached names. One that turns out to
// be removed makes the client walk again with the server's help, once, as Linux
// does on ESTALE.
func (h *Host) walk(path string) (*inode, string, error) {
	if h.s.cfg.Local {
		return h.s.srv.walk(path)
	}
	d, base, err := walk(h.s.srv.root, path, h.lookup)
	if errors.Is(err, syscall.ESTALE) || err == nil && d.nlink == 0 {
		d, base, err = walk(h.s.srv.root, path, func(d *inode, name string) (*inode, error) {
			h.revalidate(d, h.dir(d))
			return h.ask(d, name)
		})
	}
	return d, base, err
}

// absent reports that the client itself answers ENOENT for a name.
func (h *Host) absent(d *inode, base string) bool {
	if h.s.cfg.Local || base == "" {
		return false
	}
	e, ok := h.cached(d, base)
	return ok && e.ino == nil
}

// find is walk and lookup for a stat, or of a directory to be listed or synced.
func (h *Host) find(path string) (*inode, error) {
	d, base, err := h.walk(path)
	if err != nil || base == "" {
		return d, err
	}
	if len(base) > maxName {
		return nil, syscall.ENAMETOOLONG
	}
	i := d.kids[base]
	if !h.s.cfg.Local {
		if i, err = h.lookup(d, base); err != nil {
			return nil, err
		}
		if i != nil && i.nlink == 0 && !h.trusts(i) { // ESTALE: look again
			h.revalidate(d, h.dir(d))
			if i, err = h.ask(d, base); err != nil {
				return nil, err
			}
		}
	}
	if i == nil {
		return nil, syscall.ENOENT
	}
	return i, nil
}

// trusts reports that a stat of i needs no server.
func (h *Host) trusts(i *inode) bool {
	f := h.files[i]
	return f != nil && (f.deleg || h.s.now < f.until)
}

// list opens the directory anew: what the host knew of it is checked.
func (h *Host) list(path string) ([]substrate.DirEntry, error) {
	d, err := h.find(path)
	if err != nil {
		return nil, err
	}
	if !d.isDir {
		return nil, syscall.ENOTDIR
	}
	l := d.list()
	if h.s.cfg.Local {
		return l, nil
	}
	hd := h.dir(d)
	if n := len(hd.seen); n > 0 && h.mayBeStale(path) && h.s.chance(h.s.cfg.StaleList) {
		return hd.seen[h.s.rng.IntN(n)], nil
	}
	h.revalidate(d, hd)
	if h.s.cfg.StaleList > 0 {
		if len(hd.seen) == maxSeen {
			hd.seen = append(hd.seen[:0], hd.seen[1:]...)
		}
		hd.seen = append(hd.seen, l)
	}
	return l, nil
}

func (h *Host) mayBeStale(dir string) bool {
	return h.s.cfg.StaleIn == nil || h.s.cfg.StaleIn(dir)
}

// Info is what Stat tells.
type Info struct {
	Dir  bool
	Size int64
	ID   uint64 // the inode's number
}

// stat trusts names and attributes until they expire: nothing is learnt by it.
func (h *Host) stat(path string) (Info, error) {
	i, err := h.find(path)
	if err != nil {
		return Info{}, err
	}
	info := Info{Dir: i.isDir, ID: i.id}
	if i.isDir {
		return info, nil
	}
	f := h.file(i)
	if !h.s.cfg.Local && f.until <= h.s.now && !f.deleg {
		f.refetch()
	}
	info.Size = f.size()
	return info, nil
}
