package nfssim

import (
	"cmp"
	"slices"

	"kaas.dev/kaas/internal/substrate"
)

// Host is one machine: a kernel with its caches, and the processes on it.
type Host struct {
	s       *Sim
	name    string
	number  int
	frozen  bool
	started int // processes so far
	procs   []*Process
	dirs    map[*inode]*hostDir
	files   map[*inode]*hostFile
	dirty   []*hostFile // with unsent writes, oldest first
	revoked []*hostFile
}

// Host returns the host of that name, making it if it is new.
func (s *Sim) Host(name string) *Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts {
		if h.name == name {
			return h
		}
	}
	h := &Host{s: s, name: name, number: len(s.hosts)}
	h.forget()
	s.hosts = append(s.hosts, h)
	return h
}

func (h *Host) forget() {
	h.dirs, h.files = map[*inode]*hostDir{}, map[*inode]*hostFile{}
	h.dirty, h.revoked = nil, nil
}

// FS is a new process's view of the volume.
func (h *Host) FS() substrate.FS { return h.Process() }

// PowerLoss kills all processes of the host and empties its caches. What they
// wrote and did not Datasync is kept or lost by coin flip per write; on a local
// disk so are directory operations without SyncDir, and every host of the
// simulation is the same machine. New processes may be started at once.
func (h *Host) PowerLoss() {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock()
	s.note("power loss of " + h.name)
	if !s.cfg.Local {
		h.powerLoss()
		return
	}
	for _, o := range s.hosts {
		o.powerLoss()
	}
	s.srv.localPowerLoss()
}

func (h *Host) powerLoss() {
	h.frozen = false
	for _, p := range slices.Clone(h.procs) {
		p.kill(true)
	}
	for _, f := range h.dirty {
		for _, e := range f.dirty {
			if b := e.torn(h.s.rng); len(b) > 0 {
				_ = f.send(extent{off: e.off, b: b}) // ownerless: nobody commits it
			}
		}
	}
	for i := range h.files {
		i.delegs = slices.DeleteFunc(i.delegs, func(o *Host) bool { return o == h })
	}
	h.forget()
}

// writeback lets the kernel send one write of its own accord.
func (h *Host) writeback() {
	if len(h.dirty) == 0 {
		return
	}
	k := h.s.rng.IntN(len(h.dirty))
	f := h.dirty[k]
	f.writeback()
	if len(f.dirty) == 0 {
		f.queued = false
		h.dirty = slices.Delete(h.dirty, k, k+1)
	}
}

// ServerPowerLoss restarts the server. Directory operations and committed data
// are there; of uncommitted data each write is lost or kept by coin flip, and a
// host that still has the file open for writing sends it again. With
// Config.RestartStale handles are ESTALE from here on. With Config.Local it is
// the machine's power loss.
func (s *Sim) ServerPowerLoss() {
	if s.cfg.Local {
		s.Host("local").PowerLoss()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock()
	s.note("power loss of the server")
	if s.cfg.RestartStale {
		for _, h := range s.hosts {
			h.staleHandles()
		}
	}
	s.serverLoss(s.srv.root)
}

func (h *Host) staleHandles() {
	for _, p := range h.procs {
		for _, x := range p.handles {
			x.stale = true
		}
	}
	for _, f := range h.files {
		f.deleg, f.until, f.wrote = false, 0, false
	}
	for _, f := range h.dirty {
		f.drop()
	}
}

func (s *Sim) serverLoss(d *inode) {
	for _, e := range d.list() {
		k := d.kids[e.Name]
		if k.isDir {
			s.serverLoss(k)
			continue
		}
		s.resend(k)
		k.powerLoss(s.rng)
	}
}

// resend gives uncommitted writes back to hosts that will send them again.
func (s *Sim) resend(i *inode) {
	if s.cfg.RestartStale || i.writers == 0 {
		return
	}
	again := map[*hostFile][]extent{}
	for _, e := range i.loose {
		if f := e.owner; f != nil && f.opens > 0 && f.h.files[i] == f && !e.doomed {
			again[f] = append(again[f], e)
		}
	}
	for f, l := range again { // a file has one writer
		f.dirty = append(l, f.dirty...)
		f.enqueue()
	}
}

func (f *hostFile) enqueue() {
	if !f.queued {
		f.queued = true
		f.h.dirty = append(f.h.dirty, f)
	}
}

// byID orders handles as they were opened.
func byID(a, b *Handle) int { return cmp.Compare(a.id, b.id) }
