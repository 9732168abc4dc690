package nfssim

import (
	"io"
	"slices"
	"syscall"
)

// maxDirty is how many writes a host keeps to itself.
const maxDirty = 256

// hostFile is what a host's kernel holds of a file: pages, attributes, unsent
// writes, the delegation. It outlives the processes, not the host's power.
type hostFile struct {
	h       *Host
	ino     *inode
	wrote   bool // made here: its pages are right without asking
	opens   int
	pages   []byte // content at the last revalidation
	until   int64  // when that expires
	dirty   []extent
	queued  bool  // in h.dirty
	sendErr error // of a writeback, for the next Datasync or Close

	deleg   bool  // the host believes that it holds a read delegation,
	revoked bool  // which the server has taken away while it was frozen;
	learns  int64 // it will know by then

	silly    string // the .nfs name it must remove at the last close
	sillyDir *inode
}

func (h *Host) file(i *inode) *hostFile {
	f := h.files[i]
	if f == nil {
		f = &hostFile{h: h, ino: i}
		h.files[i] = f
	}
	return f
}

// refetch gets attributes and pages.
func (f *hostFile) refetch() {
	f.pages = f.ino.snapshot()
	f.until = f.h.s.now + int64(f.h.s.cfg.AttrTTL)
}

// content is what a read on this host is answered from, without unsent writes.
func (f *hostFile) content() ([]byte, error) {
	f.checkDelegation()
	switch {
	case f.h.s.cfg.Local:
		return f.ino.data, nil
	case f.deleg || f.h.s.now < f.until:
		if f.wrote {
			return f.ino.data, nil
		}
		return f.pages, nil
	case f.ino.nlink == 0:
		return nil, syscall.ESTALE
	}
	f.refetch()
	return f.ino.data, nil
}

func (f *hostFile) size() int64 {
	n := int64(len(f.pages))
	if f.wrote || f.h.s.cfg.Local {
		n = int64(len(f.ino.data))
	}
	for _, e := range f.dirty {
		n = max(n, e.end())
	}
	return n
}

func (f *hostFile) readAt(b []byte, off int64) (int, error) {
	data, err := f.content()
	if err != nil {
		return 0, err
	}
	size := int64(len(data))
	for _, e := range f.dirty {
		size = max(size, e.end())
	}
	if off < 0 {
		return 0, syscall.EINVAL
	}
	if off >= size {
		return 0, io.EOF
	}
	n := int(min(int64(len(b)), size-off))
	b = b[:n]
	clear(b)
	if off < int64(len(data)) {
		copy(b, data[off:])
	}
	f.overlay(b, off)
	return n, nil
}

func (f *hostFile) overlay(b []byte, off int64) {
	for _, e := range f.dirty {
		switch {
		case !e.overlaps(extent{off: off, b: b}):
		case e.off >= off:
			copy(b[e.off-off:], e.b)
		default:
			copy(b, e.b[off-e.off:])
		}
	}
}

// writeAt dirties pages; some of them are sent at once.
func (f *hostFile) writeAt(b []byte, off int64) {
	if len(b) == 0 {
		return
	}
	e := extent{off: off, b: slices.Clone(b), owner: f}
	if f.h.s.cfg.Local {
		f.ino.write(e)
		return
	}
	f.dirty = append(f.dirty, e)
	f.enqueue()
	if len(f.dirty) > maxDirty || f.h.s.rng.IntN(8) == 0 {
		f.writeback()
	}
}

// writeback sends one unsent write, any that no earlier one overlaps.
func (f *hostFile) writeback() {
	if len(f.dirty) == 0 {
		return
	}
	k := f.h.s.rng.IntN(len(f.dirty))
	for j := 0; j < k; j++ {
		if f.dirty[j].overlaps(f.dirty[k]) {
			k, j = j, -1
		}
	}
	if err := f.send(f.dirty[k]); err != nil {
		f.sendErr = err
	}
	f.dirty = slices.Delete(f.dirty, k, k+1)
}

func (f *hostFile) send(e extent) error {
	if f.ino.nlink == 0 {
		return syscall.ESTALE
	}
	f.h.s.recall(f.ino, f.h)
	f.ino.write(e)
	f.ino.ver++
	return nil
}

// flush sends everything, as Datasync and Close do.
func (f *hostFile) flush() error {
	err := f.sendErr
	f.sendErr = nil
	for _, e := range f.dirty {
		if e2 := f.send(e); e2 != nil {
			err = e2
		}
	}
	f.drop()
	return err
}

func (f *hostFile) drop() {
	clear(f.dirty)
	f.dirty = f.dirty[:0]
}

// sync makes the file's data durable: what this host wrote, for the server
// commits nothing else for it. On a local disk that is everything.
func (f *hostFile) sync() error {
	if err := f.flush(); err != nil {
		return err
	}
	f.ino.commit(func(e extent) bool { return e.owner == f || f.h.s.cfg.Local })
	return nil
}

// failSync is a Datasync or Close whose error cost data: every write that was not
// durable is lost, or stays visible and is never committed.
func (f *hostFile) failSync() {
	for _, e := range f.dirty {
		if f.h.s.rng.IntN(2) == 0 {
			f.sendErr = f.send(e)
		}
	}
	f.drop()
	f.sendErr = nil
	for i := range f.ino.loose {
		e := &f.ino.loose[i]
		e.doomed = e.doomed || e.owner == f || f.h.s.cfg.Local
	}
}
