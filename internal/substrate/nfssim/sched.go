package nfssim

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// Sim is a server and the hosts that mount it.
type Sim struct {
	cfg Config

	mu      sync.Mutex // guards all that follows; never held while a call is parked
	rng     *rand.Rand
	now     int64 // fake time, at the start of the step
	srv     *server
	hosts   []*Host
	procs   []*Process // alive
	arrived []*call    // since the last step, in no order
	held    holds      // picked once and held back
	hung    []*call
	hang    func(Op) bool
	late    []*call // of dead processes, still to reach the server
	next    error   // FailNext
	idle    chan struct{}
	stopped bool
	ops     int
	change  int // when some process's weight changes
	at      map[int][]func()
	sillies uint64
	handles uint64
	trace   ring
}

// New makes an empty volume. Hosts appear by [Sim.Host].
func New(cfg Config) *Sim {
	cfg.setDefaults()
	rng := rand.New(rand.NewPCG(uint64(cfg.Seed), 0x6b616173))
	return &Sim{cfg: cfg, rng: rng, srv: newServer(cfg.Local, rng), at: map[int][]func(){}, trace: newRing(cfg.TraceLen)}
}

func (s *Sim) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

func (s *Sim) clock() { s.now = time.Now().UnixNano() }

// maxWeight is a process's share when nobody starves it.
const maxWeight = 1000

var weights = [...]int{maxWeight, maxWeight, maxWeight / 10, maxWeight / 100, 1}

// maxIdle is how long Run waits, in fake time, for a call that it may release.
const maxIdle = time.Hour

// Run releases parked calls, one at a time, until the function says so or Stop is
// called. It is called in the bubble, by the goroutine that calls nothing else
// on a Process. until is asked when all goroutines are blocked; nil means never.
func (s *Sim) Run(until func() bool) error {
	var idle time.Duration
	for {
		synctest.Wait()
		if s.isStopped() || until != nil && until() {
			return nil
		}
		if s.runHooks() {
			continue
		}
		if s.step() {
			idle = 0
			s.pass()
			continue
		}
		if idle > maxIdle {
			return ErrIdle
		}
		idle += s.await(idle)
	}
}

func (s *Sim) isStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// step performs and releases one call, if one may be.
func (s *Sim) step() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock()
	s.arrange()
	s.background()
	c := s.pick()
	if c == nil {
		return false
	}
	c.op.N = s.ops + 1
	fault := s.fault(c.op)
	if c.p.dead || s.stopped { // by the fault hook
		return true
	}
	c.p.parked = without(c.p.parked, c)
	if !s.perform(c, fault) {
		s.trace.add(s, c, "target moved away")
		c.p.parked = append(c.p.parked, c)
		return true
	}
	s.ops++
	s.trace.add(s, c, "")
	close(c.done)
	return true
}

// fault asks the hooks, without the lock.
func (s *Sim) fault(op Op) error {
	if err := s.next; err != nil {
		s.next = nil
		return err
	}
	if s.cfg.Fault == nil {
		return nil
	}
	s.mu.Unlock()
	defer s.mu.Lock()
	return s.cfg.Fault(op)
}

// arrange parks what arrived, in an order that depends on nothing but the calls.
func (s *Sim) arrange() {
	if len(s.arrived) > 1 {
		slices.SortStableFunc(s.arrived, (*call).compare)
	}
	for _, c := range s.arrived {
		c.p.parked = append(c.p.parked, c)
	}
	clear(s.arrived)
	s.arrived = s.arrived[:0]
}

// pick chooses a process by weight and one of its calls. Now and then it holds
// the call back for a while, and chooses again.
func (s *Sim) pick() *call {
	s.reweigh()
	for len(s.held) > 0 && s.held[0].due <= s.ops {
		s.unhold()
	}
	for {
		p := s.pickProcess()
		if p == nil {
			if len(s.held) == 0 {
				return nil
			}
			s.unhold()
			continue
		}
		c := p.parked[s.rng.IntN(len(p.parked))]
		if s.hang != nil && s.hang(c.op) {
			p.parked = without(p.parked, c)
			s.hung = append(s.hung, c)
			continue
		}
		if c.due == 0 && s.rng.IntN(32) == 0 {
			p.parked = without(p.parked, c)
			c.due = s.ops + int(math.Exp(s.rng.Float64()*math.Log(512)))
			s.hold(c)
			continue
		}
		return c
	}
}

func (s *Sim) pickProcess() *Process {
	total := 0
	for _, p := range s.procs {
		if p.ready() {
			total += p.weight
		}
	}
	if total == 0 {
		return nil
	}
	n := s.rng.IntN(total)
	for _, p := range s.procs {
		if !p.ready() {
			continue
		}
		if n -= p.weight; n < 0 {
			return p
		}
	}
	return nil
}

func (p *Process) ready() bool { return len(p.parked) > 0 && !p.h.frozen }

// reweigh starves some process, or feeds it again.
func (s *Sim) reweigh() {
	if s.ops < s.change || len(s.procs) == 0 {
		return
	}
	s.change = s.ops + 1 + s.rng.IntN(100)
	s.procs[s.rng.IntN(len(s.procs))].weight = weights[s.rng.IntN(len(weights))]
}

func (s *Sim) hold(c *call) { heap.Push(&s.held, c) }

func (s *Sim) unhold() {
	c := heap.Pop(&s.held).(*call)
	c.p.parked = append(c.p.parked, c)
}

// background is what kernels and networks do by themselves.
func (s *Sim) background() {
	if s.rng.IntN(32) == 0 && len(s.hosts) > 0 {
		if h := s.hosts[s.rng.IntN(len(s.hosts))]; !h.frozen {
			h.writeback()
		}
	}
	if len(s.late) > 0 && s.rng.IntN(16) == 0 {
		k := s.rng.IntN(len(s.late))
		c := s.late[k]
		s.late = slices.Delete(s.late, k, k+1)
		s.perform(c, nil)
		if c.got != nil {
			c.got.release()
		}
		s.trace.add(s, c, "late")
	}
}

// holds is a heap of calls by when they are due.
type holds []*call

func (h holds) Len() int           { return len(h) }
func (h holds) Less(i, j int) bool { return h[i].due < h[j].due }
func (h holds) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *holds) Push(x any)        { *h = append(*h, x.(*call)) }
func (h *holds) Pop() any {
	old := *h
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return c
}
