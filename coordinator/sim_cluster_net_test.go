package coordinator

import (
	"context"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/projections"
)

// simNetwork is the network of the simulated hosts.
type simNetwork struct {
	network
	faults struct {
		sync.Mutex
		rng    *rand.Rand
		paused map[string]bool // hosts
		hosts  map[int32]string
	}
}

func newSimNetwork(seed int64) *simNetwork {
	n := &simNetwork{}
	n.silent = map[int32]bool{}
	n.faults.rng = rand.New(rand.NewPCG(uint64(seed), 4))
	n.faults.paused, n.faults.hosts = map[string]bool{}, map[int32]string{}
	return n
}

func (n *simNetwork) silence(id int32, on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent[id] = on
}

func (n *simNetwork) pause(host string, on bool) {
	n.faults.Lock()
	defer n.faults.Unlock()
	n.faults.paused[host] = on
}

func (n *simNetwork) isPaused(host string) bool {
	n.faults.Lock()
	defer n.faults.Unlock()
	return n.faults.paused[host]
}

// loses reports that nothing gets from a host to a port, or back.
func (n *simNetwork) loses(host string, port int32, calm bool) bool {
	n.faults.Lock()
	defer n.faults.Unlock()
	return n.faults.paused[host] || n.faults.paused[n.faults.hosts[port]] || !calm && n.faults.rng.IntN(100) == 0
}

// simPeers is a process's way to others.
type simPeers struct{ p *simProc }

func (q simPeers) Ask(ctx context.Context, to projections.Listener, req kmsg.Request) (kmsg.Response, error) {
	w := q.p.w
	lost := func() bool { return w.net.loses(q.p.host, to.Port, w.calm.Load()) }
	if q.p.dead.Load() {
		return nil, io.ErrClosedPipe
	}
	if !lost() {
		resp, err := w.net.Ask(ctx, to, req)
		if err != nil || !lost() && !q.p.dead.Load() {
			return resp, err
		}
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// Stay looks seldom: each look is a step of the simulation.
func (q simPeers) Stay(ctx context.Context, to projections.Listener) {
	for sleep.For(ctx, 300*time.Millisecond) {
		q.p.w.net.mu.Lock()
		_, listens := q.p.w.net.brokers[to.Port]
		q.p.w.net.mu.Unlock()
		if !listens || q.p.dead.Load() {
			return
		}
	}
}

func (simPeers) Close() {}

// simElection chooses who stands for controller by the seed alone. It is as bad as an
// election may be: its terms overlap, and who is paused learns late that it has lost.
type simElection struct {
	w   *clusterSim
	mu  sync.Mutex
	rng *rand.Rand
	all []*candidate
}

type candidate struct {
	p      *simProc
	cfg    election.Config
	won    chan struct{}
	cancel context.CancelFunc // of its term, nil without one
	late   time.Duration      // how long it has been paused
}

func newSimElection(w *clusterSim, seed int64) *simElection {
	return &simElection{w: w, rng: rand.New(rand.NewPCG(uint64(seed), 5))}
}

// stand is Options.elect of a process.
func (e *simElection) stand(p *simProc) func(context.Context, election.Config) error {
	return func(ctx context.Context, cfg election.Config) error {
		c := &candidate{p: p, cfg: cfg, won: make(chan struct{}, 1)}
		e.mu.Lock()
		e.all = append(e.all, c)
		slices.SortFunc(e.all, func(a, b *candidate) int { return int(a.p.port - b.p.port) })
		e.mu.Unlock()
		defer func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.all = slices.DeleteFunc(e.all, func(o *candidate) bool { return o == c })
		}()
		for {
			select {
			case <-c.won:
			case <-ctx.Done():
				return nil
			}
			term, cancel := context.WithCancel(ctx)
			e.mu.Lock()
			c.cancel = cancel
			e.mu.Unlock()
			e.w.note(func() { e.w.st.terms++ })
			cfg.Lead(term)
			cancel()
			e.mu.Lock()
			c.cancel = nil
			e.mu.Unlock()
			sleep.For(ctx, time.Second)
		}
	}
}

const refereeEvery = 500 * time.Millisecond

// referee has somebody lead whenever nobody does, until ctx ends.
func (e *simElection) referee(ctx context.Context) {
	for sleep.For(ctx, refereeEvery) {
		e.mu.Lock()
		led := false
		for _, c := range e.all {
			switch {
			case c.cancel == nil:
			case e.w.net.isPaused(c.p.host):
				c.late += refereeEvery
				led = led || c.late < 3*time.Second
			case c.late >= 3*time.Second, c.cfg.Healthy() != nil:
				c.late = 0
				c.cancel()
			default:
				led = true
			}
		}
		if !led {
			e.choose()
		}
		e.mu.Unlock()
	}
}

// choose has one more of those that do not lead begin a term.
func (e *simElection) choose() {
	var free []*candidate
	for _, c := range e.all {
		if c.cancel == nil && !c.p.dead.Load() && !e.w.net.isPaused(c.p.host) && c.cfg.Healthy() == nil {
			free = append(free, c)
		}
	}
	if len(free) == 0 {
		return
	}
	select {
	case free[e.rng.IntN(len(free))].won <- struct{}{}:
	default:
	}
}

// another begins a term beside the one there is, which ends later, or when the volume
// tells it.
func (e *simElection) another() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.all {
		if cancel := c.cancel; cancel != nil && e.rng.IntN(2) == 0 {
			time.AfterFunc(time.Duration(e.rng.IntN(10))*time.Second, cancel)
		}
	}
	e.choose()
}
