package substrate

import (
	"strings"
	"sync"
	"sync/atomic"
)

// PoolLimits bound the calls that are on their way to the volume at one time. Each
// that hangs pins a thread. Zero fields have the defaults that their comments name.
type PoolLimits struct {
	Volume  int // of all topics together; 256
	Reads   int // of one owner: reads, opens for reading, listings; 16
	Changes int // of one owner: everything else; 8
}

func (l PoolLimits) withDefaults() PoolLimits {
	def := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	def(&l.Volume, 256)
	def(&l.Reads, 16)
	def(&l.Changes, 8)
	return l
}

// Pool is an FS that lets a bounded number of calls through at a time. A call is made
// in its caller's goroutine, so that a place costs no switch between goroutines; one
// call too many waits as a goroutine, which pins no thread. [Do] is for callers that
// are not to wait longer than a context.
//
// A call's owner is told by its name: a partition's directory, the sessions, the
// metadata, or a topic's directory. What hangs in one partition fills that partition's
// share and leaves the rest of the volume's to the others. The broker's own calls, in
// sessions and metadata, have a share outside of the volume's: partitions that hang
// never keep a Check or a publish waiting. Changes do not wait for reads.
type Pool struct {
	fs     FS
	limits PoolLimits
	volume places
	flying atomic.Int64
	full   atomic.Pointer[func()]

	mu     sync.Mutex
	owners map[string]*owner
}

// places is a counting semaphore.
type places chan struct{}

// owner is who shares a bound.
type owner struct {
	name           string
	reads, changes places
	counted        bool // in the volume's bound too
	users          int  // calls and open files; under Pool.mu
}

// NewPool bounds fs.
func NewPool(fs FS, limits PoolLimits) *Pool {
	limits = limits.withDefaults()
	return &Pool{fs: fs, limits: limits, volume: make(places, limits.Volume), owners: map[string]*owner{}}
}

// InFlight is how many calls are on their way.
func (p *Pool) InFlight() int { return int(p.flying.Load()) }

// OnFull has f told of every call that the volume answers with "no room". f must not wait.
func (p *Pool) OnFull(f func()) {
	p.full.Store(&f)
}

// Root is the directory of a [DirFS] below, for people.
func (p *Pool) Root() string {
	if d, ok := p.fs.(interface{ Root() string }); ok {
		return d.Root()
	}
	return "volume"
}

// Watch is [DirFS.Watch] of a DirFS below; elsewhere nothing ever wakes.
func (p *Pool) Watch(dir string) (wake <-chan struct{}, stop func(), err error) {
	if d, ok := p.fs.(*DirFS); ok {
		return d.Watch(dir)
	}
	return nil, func() {}, nil
}

// ownerOf is whose share a name's calls take: topics/<topic>/<partition>, else
// topics/<topic>, else the first name alone, which is not counted in the volume's.
func ownerOf(name string) (share string, counted bool) {
	first, rest, _ := strings.Cut(name, "/")
	if first != "topics" {
		return first, false
	}
	n := len(first)
	for range 2 {
		var part string
		if part, rest, _ = strings.Cut(rest, "/"); part == "" {
			break
		}
		n += 1 + len(part)
	}
	return name[:n], true
}

// hold returns the owner of a name, which stays until drop.
func (p *Pool) hold(name string) *owner {
	share, counted := ownerOf(name)
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.owners[share]
	if o == nil {
		o = &owner{name: strings.Clone(share), counted: counted, reads: make(places, p.limits.Reads), changes: make(places, p.limits.Changes)}
		p.owners[o.name] = o
	}
	o.users++
	return o
}

func (p *Pool) drop(o *owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.users--; o.users == 0 {
		delete(p.owners, o.name)
	}
}

// enter takes a place for a call, the owner's before the volume's: who waits for the
// volume holds no more than its own share.
func (p *Pool) enter(o *owner, lane places) {
	lane <- struct{}{}
	if o.counted {
		p.volume <- struct{}{}
	}
	p.flying.Add(1)
}

func (p *Pool) leave(o *owner, lane places) {
	p.flying.Add(-1)
	if o.counted {
		<-p.volume
	}
	<-lane
}

// seen passes a call's error on, and the news that the volume is full.
func (p *Pool) seen(err error) error {
	if err != nil && IsFull(err) {
		if f := p.full.Load(); f != nil {
			(*f)()
		}
	}
	return err
}

func (p *Pool) read(name string, call func() error) error {
	o := p.hold(name)
	defer p.drop(o)
	p.enter(o, o.reads)
	defer p.leave(o, o.reads)
	return p.seen(call())
}

func (p *Pool) change(name string, call func() error) error {
	o := p.hold(name)
	defer p.drop(o)
	p.enter(o, o.changes)
	defer p.leave(o, o.changes)
	return p.seen(call())
}

// Open implements FS.
func (p *Pool) Open(name string) (File, error) { return p.open(name, p.fs.Open) }

// Glance implements [Glancer].
func (p *Pool) Glance(name string) (File, error) {
	return p.open(name, func(name string) (File, error) { return glance(p.fs, name) })
}

func (p *Pool) open(name string, open func(string) (File, error)) (f File, err error) {
	err = p.read(name, func() error { f, err = open(name); return err })
	if err != nil {
		return nil, err
	}
	o := p.hold(name)
	x := &pooledFile{p: p, o: o, f: f, lane: o.reads}
	if send, ok := f.(Sendable); ok {
		return &pooledSendable{x, send}, nil
	}
	return x, nil
}

// CreateExclusive implements FS.
func (p *Pool) CreateExclusive(name string) (f File, err error) {
	err = p.change(name, func() error { f, err = p.fs.CreateExclusive(name); return err })
	if err != nil {
		return nil, err
	}
	o := p.hold(name)
	x := &pooledFile{p: p, o: o, f: f, lane: o.changes}
	if send, ok := f.(Sendable); ok {
		return &pooledSendable{x, send}, nil
	}
	return x, nil
}

// Mkdir implements FS.
func (p *Pool) Mkdir(name string) error {
	return p.change(name, func() error { return p.fs.Mkdir(name) })
}

// Rename implements FS.
func (p *Pool) Rename(oldname, newname string) error {
	return p.change(newname, func() error { return p.fs.Rename(oldname, newname) })
}

// Remove implements FS.
func (p *Pool) Remove(name string) error {
	return p.change(name, func() error { return p.fs.Remove(name) })
}

// List implements FS.
func (p *Pool) List(name string) (es []DirEntry, err error) {
	err = p.read(name, func() error { es, err = p.fs.List(name); return err })
	return es, err
}

// SyncDir implements FS.
func (p *Pool) SyncDir(name string) error {
	return p.change(name, func() error { return p.fs.SyncDir(name) })
}

// Free implements [Spacer].
func (p *Pool) Free() (n int64, err error) {
	err = p.read("statfs", func() error { n, err = Free(p.fs); return err })
	return n, err
}

// pooledSendable is a pooledFile that the kernel can send.
type pooledSendable struct {
	*pooledFile
	send Sendable
}

// Sendfile implements [Sendable]: a read of the volume like others.
func (x *pooledSendable) Sendfile(socket uintptr, off int64, n int) (int, error) {
	x.p.enter(x.o, x.o.reads)
	defer x.p.leave(x.o, x.o.reads)
	return x.send.Sendfile(socket, off, n)
}

// pooledFile counts the calls on an open file in its owner's share.
type pooledFile struct {
	p      *Pool
	o      *owner
	f      File
	lane   places // of its close: what was written goes out then
	closed atomic.Bool
}

func (x *pooledFile) ReadAt(b []byte, off int64) (int, error) {
	x.p.enter(x.o, x.o.reads)
	defer x.p.leave(x.o, x.o.reads)
	return x.f.ReadAt(b, off)
}

func (x *pooledFile) WriteAt(b []byte, off int64) (int, error) {
	x.p.enter(x.o, x.o.changes)
	defer x.p.leave(x.o, x.o.changes)
	n, err := x.f.WriteAt(b, off)
	return n, x.p.seen(err)
}

func (x *pooledFile) Datasync() error {
	x.p.enter(x.o, x.o.changes)
	defer x.p.leave(x.o, x.o.changes)
	return x.p.seen(x.f.Datasync())
}

// Size takes no place: it is asked right after an open.
func (x *pooledFile) Size() (int64, error) { return x.f.Size() }

func (x *pooledFile) Close() error {
	x.p.enter(x.o, x.lane)
	err := x.p.seen(x.f.Close())
	x.p.leave(x.o, x.lane)
	if x.closed.CompareAndSwap(false, true) {
		x.p.drop(x.o)
	}
	return err
}

// Unwrap is the file that is counted, for who hands its descriptor to the kernel.
func (x *pooledFile) Unwrap() File { return x.f }
