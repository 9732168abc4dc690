package nfssim

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"kaas.dev/kaas/internal/substrate"
)

// Process is one process's view of the volume; its calls park until Run releases
// them. It implements [substrate.FS].
type Process struct {
	h       *Host
	number  int
	dead    bool
	weight  int
	parked  []*call
	handles []*Handle
}

// Process starts a process on the host.
func (h *Host) Process() *Process {
	h.s.mu.Lock()
	defer h.s.mu.Unlock()
	h.started++
	p := &Process{h: h, number: h.started, weight: maxWeight}
	h.procs = append(h.procs, p)
	h.s.procs = append(h.s.procs, p)
	return p
}

// Handle is an open file; it implements [substrate.File].
type Handle struct {
	p      *Process
	f      *hostFile
	id     uint64
	name   string
	write  bool
	stale  bool // the server restarted and forgot it
	closed bool
}

func (p *Process) path(k Kind, name string) *call {
	return p.do(&call{p: p, op: Op{Kind: k, Name: name}})
}

// Open implements substrate.FS.
func (p *Process) Open(name string) (substrate.File, error) { return p.path(OpOpen, name).file() }

// CreateExclusive implements substrate.FS.
func (p *Process) CreateExclusive(name string) (substrate.File, error) {
	return p.path(OpCreate, name).file()
}

// Mkdir implements substrate.FS.
func (p *Process) Mkdir(name string) error { return p.path(OpMkdir, name).err }

// Remove implements substrate.FS.
func (p *Process) Remove(name string) error { return p.path(OpRemove, name).err }

// SyncDir implements substrate.FS. On NFS there is nothing to do: the export is sync.
func (p *Process) SyncDir(name string) error { return p.path(OpSyncDir, name).err }

// Rename implements substrate.FS.
func (p *Process) Rename(oldname, newname string) error {
	return p.do(&call{p: p, op: Op{Kind: OpRename, Name: oldname, To: newname}}).err
}

// List implements substrate.FS.
func (p *Process) List(name string) ([]substrate.DirEntry, error) {
	c := p.path(OpList, name)
	return slices.Clone(c.list), c.err
}

// Stat is what substrate.FS does without: answered from caches, it misses news.
func (p *Process) Stat(name string) (Info, error) {
	c := p.path(OpStat, name)
	return c.info, c.err
}

func (x *Handle) data(k Kind, b []byte, off int64) *call {
	return x.p.do(&call{p: x.p, x: x, buf: b, op: Op{Kind: k, Name: x.name, Off: off, Len: len(b)}})
}

// ReadAt implements io.ReaderAt.
func (x *Handle) ReadAt(b []byte, off int64) (int, error) {
	c := x.data(OpRead, b, off)
	if c.err == nil && c.n < len(b) {
		return c.n, io.EOF
	}
	return c.n, c.err
}

// WriteAt implements io.WriterAt.
func (x *Handle) WriteAt(b []byte, off int64) (int, error) {
	c := x.data(OpWrite, b, off)
	return c.n, c.err
}

// Datasync implements substrate.File.
func (x *Handle) Datasync() error { return x.data(OpDatasync, nil, 0).err }

// Close implements io.Closer. On NFS it sends what was written, without making
// it durable, and reports what went wrong with that.
func (x *Handle) Close() error { return x.data(OpClose, nil, 0).err }

// Size implements substrate.File; the client answers it, so it does not park.
func (x *Handle) Size() (int64, error) {
	x.p.h.s.mu.Lock()
	defer x.p.h.s.mu.Unlock()
	switch {
	case x.p.dead || x.p.h.s.stopped:
		return 0, ErrKilled
	case x.closed:
		return 0, &fs.PathError{Op: "stat", Path: x.name, Err: os.ErrClosed}
	}
	return x.f.size(), nil
}

// Kill ends the process as kill -9 does. A parked call, and every later one,
// returns ErrKilled; it may have taken effect just before, by coin flip, or with
// Config.Late still take effect later. What was written stays in the host's page
// cache, to be sent some time.
func (p *Process) Kill() {
	s := p.h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock()
	s.note("kill of " + p.String())
	p.kill(false)
}

// kill releases the process's calls and closes its files. After a power loss no
// client is left to clean up silly names.
func (p *Process) kill(power bool) {
	if p.dead {
		return
	}
	s := p.h.s
	s.arrange()
	calls := s.takeCalls(p)
	for _, c := range calls {
		switch {
		case s.rng.IntN(2) == 0:
			s.perform(c, nil)
		case c.op.Kind.namespace() && s.chance(s.cfg.Late):
			s.late = append(s.late, &call{p: p, op: c.op, phase: c.phase})
		}
	}
	p.dead = true
	for _, c := range calls {
		c.killed()
	}
	slices.SortFunc(p.handles, byID)
	for _, x := range slices.Clone(p.handles) {
		if power {
			x.f.silly = ""
		}
		x.release()
	}
	p.h.procs = without(p.h.procs, p)
	s.procs = without(s.procs, p)
}

func without[T comparable](l []T, v T) []T {
	if i := slices.Index(l, v); i >= 0 {
		return slices.Delete(l, i, i+1)
	}
	return l
}

// release closes the handle without sending anything.
func (x *Handle) release() {
	if x.closed {
		return
	}
	x.closed = true
	x.f.close(x.write)
	x.p.handles = without(x.p.handles, x)
}

// wrap makes errors what package os would return.
func (o Op) wrap(err error) error {
	if _, ok := err.(syscall.Errno); !ok && err != os.ErrClosed {
		return err
	}
	switch o.Kind {
	case OpRename:
		return &os.LinkError{Op: "rename", Old: o.Name, New: o.To, Err: err}
	case OpCreate, OpList:
		return &fs.PathError{Op: "open", Path: o.Name, Err: err}
	}
	return &fs.PathError{Op: o.Kind.String(), Path: o.Name, Err: err}
}
