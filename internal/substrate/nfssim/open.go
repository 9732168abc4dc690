package nfssim

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// sillyPrefix begins the name of a removed file that its host holds open.
const sillyPrefix = ".nfs"

// learnMax is how long after a thaw a host may take to hear of a revocation.
const learnMax = 5 * time.Second

// open finds the file that an Open is answered with; see the package comment.
func (h *Host) open(path string) (*hostFile, error) {
	d, base, err := h.walk(path)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return nil, syscall.EISDIR
	}
	if len(base) > maxName {
		return nil, syscall.ENAMETOOLONG
	}
	if h.s.cfg.Local {
		return h.opened(d.kids[base])
	}
	if f := h.delegated(d, base); f != nil {
		f.opens++
		f.ino.opens++
		return f, nil
	}
	i, err := h.openWire(d, base)
	if err != nil {
		return nil, err
	}
	return h.opened(i)
}

// delegated returns the file that a read delegation lets the client open by
// itself. Only a listing, or an own change, of the directory breaks the name.
func (h *Host) delegated(d *inode, base string) *hostFile {
	e, ok := h.dir(d).names[base]
	if !ok || e.ino == nil || e.ino.isDir {
		return nil
	}
	f := h.files[e.ino]
	if f == nil {
		return nil
	}
	f.checkDelegation()
	if !f.deleg {
		return nil
	}
	return f
}

// openWire is an OPEN by the handle that the client has for the name, else by name.
func (h *Host) openWire(d *inode, base string) (*inode, error) {
	e, known := h.cached(d, base)
	if known && e.ino == nil {
		return nil, nil
	}
	now := d.kids[base]
	if known && !e.ino.isDir && now != nil && now != e.ino {
		if e.ino.nlink > 0 { // replaced, but the handle is good: the old file
			return e.ino, nil
		}
		if e.ino.opens > 0 {
			return nil, syscall.ESTALE
		}
	}
	return h.ask(d, base)
}

// opened takes a handle on what the server named.
func (h *Host) opened(i *inode) (*hostFile, error) {
	if i == nil {
		return nil, syscall.ENOENT
	}
	if i.isDir {
		return nil, syscall.EISDIR
	}
	f := h.file(i)
	f.opens++
	i.opens++
	if h.s.cfg.Local {
		return f, nil
	}
	f.refetch()
	if h.s.cfg.Delegations && !f.deleg && i.writers == 0 && h.s.rng.IntN(2) == 0 {
		f.deleg = true
		i.delegs = append(i.delegs, h)
	}
	return f, nil
}

// create is O_CREAT|O_EXCL, which the server decides.
func (h *Host) create(path string) (*hostFile, error) {
	d, base, err := h.walk(path)
	if err != nil {
		return nil, err
	}
	i, err := h.s.srv.make(d, base, false)
	if err != nil {
		return nil, err
	}
	h.changed(d)
	f := h.file(i)
	f.wrote = true
	f.opens++
	i.opens++
	i.writers++
	f.until = h.s.now + int64(h.s.cfg.AttrTTL)
	return f, nil
}

// close ends one open of f; the last one removes its silly name.
func (f *hostFile) close(wrote bool) {
	f.opens--
	f.ino.opens--
	if wrote {
		f.ino.writers--
	}
	if f.opens > 0 {
		return
	}
	if f.silly != "" && f.sillyDir.kids[f.silly] == f.ino {
		if i, err := f.h.s.srv.remove(f.sillyDir, f.silly); err == nil {
			f.h.s.recall(i, f.h)
			f.h.changed(f.sillyDir)
		}
	}
	f.silly = ""
	if f.ino.nlink == 0 && !f.queued && !f.deleg {
		delete(f.h.files, f.ino)
	}
}

// sillyRename keeps a file that this host holds open under another name.
func (h *Host) sillyRename(d *inode, base string, f *hostFile) error {
	h.s.sillies++
	name := fmt.Sprintf("%s%016x%08x", sillyPrefix, f.ino.id, h.s.sillies)
	if _, err := h.s.srv.rename(d, base, d, name); err != nil {
		return err
	}
	h.s.recall(f.ino, h)
	f.silly, f.sillyDir = name, d
	h.changed(d)
	return nil
}

// recall takes the read delegations on i from all hosts: a live one gives its up
// before the server goes on; from a frozen one it is revoked, which that host
// does not know.
func (s *Sim) recall(i *inode, by *Host) {
	for _, h := range i.delegs {
		f := h.files[i]
		if f == nil || !f.deleg {
			continue
		}
		if h.frozen && h != by {
			f.revoked, f.learns = true, 0
			h.revoked = append(h.revoked, f)
			continue
		}
		f.deleg = false
	}
	i.delegs = i.delegs[:0]
}

func (f *hostFile) checkDelegation() {
	if f.deleg && f.revoked && f.learns <= f.h.s.now {
		f.deleg, f.revoked = false, false
	}
}

// Freeze stops the host as a paused VM is: no call of it is released, and the
// server revokes its delegations where others need them. Its goroutines' own
// steps between calls go on, for the simulation cannot hold them.
func (h *Host) Freeze() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.frozen = true
}

// Thaw lets the host go on. For up to five seconds, or until it lists or changes
// the directory, it may open from its cache what was revoked meanwhile.
func (h *Host) Thaw() {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.frozen = false
	h.s.clock()
	for _, f := range h.revoked {
		f.learns = h.s.now + h.s.rng.Int64N(int64(learnMax))
	}
	h.revoked = slices.Delete(h.revoked, 0, len(h.revoked))
}
