package nfssim

import "syscall"

// mkdir may be refused by the client, from a name it has cached as present.
func (h *Host) mkdir(path string) error {
	d, base, err := h.walk(path)
	if err != nil {
		return err
	}
	if !h.s.cfg.Local && base != "" {
		if e, ok := h.cached(d, base); ok && e.ino != nil && h.s.rng.IntN(2) == 0 {
			return syscall.EEXIST
		}
	}
	if _, err := h.s.srv.make(d, base, true); err != nil {
		return err
	}
	h.changed(d)
	return nil
}

// rename is the server's by name, but the client must find its source, and it
// first moves an open target out of the way: then again is true, and the rename
// itself is another step.
func (h *Host) rename(c *call) (again bool, err error) {
	sd, sn, err := h.walk(c.op.Name)
	if err != nil {
		return false, err
	}
	dd, dn, err := h.walk(c.op.To)
	if err != nil {
		return false, err
	}
	if h.absent(sd, sn) {
		return false, syscall.ENOENT
	}
	moved := child(sd, sn)
	if c.phase == 0 && moved != nil && !moved.isDir {
		if f := h.openTarget(dd, dn, moved); f != nil {
			c.phase = 1
			return true, h.sillyRename(dd, dn, f)
		}
	}
	old, err := h.s.srv.rename(sd, sn, dd, dn)
	if err != nil {
		return false, err
	}
	if old != nil {
		h.s.recall(old, h)
	}
	h.s.recall(moved, h)
	h.changed(sd)
	h.changed(dd)
	return false, nil
}

// openTarget is the file at the name if a process of this host has it open.
func (h *Host) openTarget(d *inode, base string, moved *inode) *hostFile {
	i := d.kids[base]
	if i == nil || i == moved || i.isDir || h.s.cfg.Local || h.s.cfg.AtomicReplace {
		return nil
	}
	if f := h.files[i]; f != nil && f.opens > 0 && f.silly == "" {
		return f
	}
	return nil
}

// remove unlinks a name, or renames it to .nfsXXXX while this host has it open.
func (h *Host) remove(path string) error {
	d, base, err := h.walk(path)
	if err != nil {
		return err
	}
	if h.absent(d, base) {
		return syscall.ENOENT
	}
	i := d.kids[base]
	if f := h.files[i]; i != nil && f != nil && f.opens > 0 && !h.s.cfg.Local {
		switch f.silly {
		case "":
			return h.sillyRename(d, base, f)
		case base:
			return syscall.EBUSY
		}
	}
	if i, err = h.s.srv.remove(d, base); err != nil {
		return err
	}
	h.s.recall(i, h)
	h.changed(d)
	return nil
}

func (h *Host) syncDir(path string) error {
	d, err := h.find(path)
	if err != nil {
		return err
	}
	if !d.isDir {
		return syscall.ENOTDIR
	}
	h.s.srv.syncDir(d)
	return nil
}
