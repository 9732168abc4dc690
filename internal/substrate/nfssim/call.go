package nfssim

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"strings"
	"syscall"

	"kaas.dev/kaas/internal/substrate"
)

// call is one call on its way: arrived, parked, perhaps held back, performed,
// released.
type call struct {
	p     *Process
	x     *Handle // of a call on a file
	op    Op
	buf   []byte
	done  chan struct{}
	phase int // 1: a rename whose open target is out of the way
	due   int // held back until so many calls were performed

	n    int
	err  error
	got  *Handle
	list []substrate.DirEntry
	info Info
}

// compare orders calls that arrived at one instant, whatever goroutine was first.
func (c *call) compare(o *call) int {
	var a, b uint64
	if c.x != nil && o.x != nil {
		a, b = c.x.id, o.x.id
	}
	return cmp.Or(
		cmp.Compare(c.p.h.number, o.p.h.number),
		cmp.Compare(c.p.number, o.p.number),
		cmp.Compare(c.op.Kind, o.op.Kind),
		strings.Compare(c.op.Name, o.op.Name),
		strings.Compare(c.op.To, o.op.To),
		cmp.Compare(a, b),
		cmp.Compare(c.op.Off, o.op.Off),
		cmp.Compare(c.op.Len, o.op.Len),
		c.compareData(o),
	)
}

func (c *call) compareData(o *call) int {
	if c.op.Kind != OpWrite || o.op.Kind != OpWrite {
		return 0
	}
	return bytes.Compare(c.buf, o.buf)
}

// do parks the call until it is released.
func (p *Process) do(c *call) *call {
	s := p.h.s
	s.mu.Lock()
	if p.dead || s.stopped {
		s.mu.Unlock()
		c.err = ErrKilled
		return c
	}
	c.op.Host, c.op.Proc = p.h.name, p.number
	c.done = make(chan struct{})
	s.arrived = append(s.arrived, c)
	if s.idle != nil {
		select {
		case s.idle <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	<-c.done
	return c
}

func (c *call) file() (substrate.File, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.got, nil
}

// killed releases the call of a dead process.
func (c *call) killed() {
	if c.got != nil {
		c.got.release()
	}
	c.n, c.err, c.list, c.info = 0, ErrKilled, nil, Info{}
	close(c.done)
}

// perform carries the call out. It reports false if it has to be parked again.
func (s *Sim) perform(c *call, fault error) bool {
	var after appliedError
	switch {
	case fault == nil:
	case errors.As(fault, &after):
		fault = after.err
	default:
		c.err = c.op.wrap(fault)
		c.fail()
		return true
	}
	again, err := s.apply(c)
	if again {
		return false
	}
	if err == nil && c.op.Kind.namespace() && s.chance(s.cfg.LostReply) {
		err = s.lostReply(c.op.Kind)
	}
	if err == nil {
		err = fault
	}
	if err != nil {
		c.err = c.op.wrap(err)
		if c.got != nil {
			c.got.release()
			c.got = nil
		}
	}
	return true
}

// lostReply is what the caller is told instead: the answer to its client's
// retransmission, or that there was none.
func (s *Sim) lostReply(k Kind) error {
	switch {
	case s.rng.IntN(2) == 0:
		return syscall.EIO
	case k == OpRename || k == OpRemove:
		return syscall.ENOENT
	}
	return syscall.EEXIST
}

// fail is what an injected error costs.
func (c *call) fail() {
	if c.x == nil || c.x.closed {
		return
	}
	s := c.p.h.s
	switch c.op.Kind {
	case OpWrite:
		if c.n = s.rng.IntN(len(c.buf) + 1); c.n == len(c.buf) {
			c.n = 0
		}
		c.x.f.writeAt(c.buf[:c.n], c.op.Off)
	case OpDatasync:
		c.x.f.failSync()
	case OpClose:
		c.x.f.failSync()
		c.x.release()
	}
}

func (s *Sim) apply(c *call) (again bool, err error) {
	h := c.p.h
	switch c.op.Kind {
	case OpOpen:
		var f *hostFile
		if f, err = h.open(c.op.Name); err == nil {
			c.open(f, false)
		}
	case OpCreate:
		var f *hostFile
		if f, err = h.create(c.op.Name); err == nil {
			c.open(f, true)
		}
	case OpMkdir:
		err = h.mkdir(c.op.Name)
	case OpRename:
		return h.rename(c)
	case OpRemove:
		err = h.remove(c.op.Name)
	case OpList:
		c.list, err = h.list(c.op.Name)
	case OpSyncDir:
		err = h.syncDir(c.op.Name)
	case OpStat:
		c.info, err = h.stat(c.op.Name)
	default:
		err = c.applyData()
	}
	return false, err
}

func (c *call) open(f *hostFile, write bool) {
	s := c.p.h.s
	s.handles++
	c.got = &Handle{p: c.p, f: f, id: s.handles, name: c.op.Name, write: write}
	c.p.handles = append(c.p.handles, c.got)
}

func (c *call) applyData() (err error) {
	x := c.x
	if x.closed {
		return os.ErrClosed
	}
	switch c.op.Kind {
	case OpRead:
		if x.stale {
			return syscall.ESTALE
		}
		c.n, err = x.f.readAt(c.buf, c.op.Off)
	case OpWrite:
		switch {
		case !x.write:
			return syscall.EBADF
		case c.op.Off < 0:
			return syscall.EINVAL
		case x.stale:
			return syscall.ESTALE
		}
		x.f.writeAt(c.buf, c.op.Off)
		c.n = len(c.buf)
	case OpDatasync:
		if x.stale {
			return syscall.ESTALE
		}
		err = x.f.sync()
	case OpClose:
		if x.write { // as Linux: closing a reader sends nothing
			err = x.f.flush()
		}
		if x.stale {
			err = syscall.ESTALE
		}
		x.release()
	}
	return err
}
