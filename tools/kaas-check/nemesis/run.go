package nemesis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"kaas.dev/kaas/tools/kaas-check/cluster"
)

// Runner carries a plan out.
type Runner struct {
	Cluster cluster.Cluster
	// Controller asks who is controller, and Coordinator who coordinates transactions.
	Controller, Coordinator func(ctx context.Context) (int32, error)
	// Even returns when all brokers lead as many partitions, within one.
	Even func(ctx context.Context) error
	// Began and Ended are told of each part of a step; what Began returns goes to Ended.
	Began func(what string) int64
	Ended func(began int64, what string, err error)
	// Off are the nodes whose clock is wrong all the time, and by how much.
	Off map[int32]time.Duration

	volume *semaphore.Weighted           // held whole by a fault of the volume: a broker that starts while it is full ends, as it should
	nodes  map[int32]*semaphore.Weighted // one fault of a node at a time
	api    *semaphore.Weighted           // and of the API server
}

// fencedTime is how long a process may live on that was taken over. It ends within a second
// or two; the rest is for a machine that is busy with something else, and for a time in which
// nobody can be elected.
const fencedTime = 2 * time.Minute

// manyNodes is more than there are.
const manyNodes = 1 << 20

// Run carries the steps out and returns when all are over. No step begins after ctx has
// ended: those that wait for another to be over are left out then.
func (r *Runner) Run(ctx context.Context, steps []Step) {
	r.volume, r.nodes = semaphore.NewWeighted(manyNodes), map[int32]*semaphore.Weighted{}
	r.api = semaphore.NewWeighted(1)
	for _, n := range r.Cluster.Nodes() {
		r.nodes[n] = semaphore.NewWeighted(1)
	}
	began := time.Now()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, s := range steps {
		timer := time.NewTimer(time.Until(began.Add(s.At)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		wg.Go(func() { r.step(ctx, s) })
	}
}

// step carries one out. Once begun it goes to its end, whatever becomes of ctx.
func (r *Runner) step(ctx context.Context, s Step) {
	if p, ok := r.Cluster.(cluster.Pods); ok { // one after the other: each is measured
		holding(ctx, r.volume, manyNodes, func() {
			if slices.Contains(APIKinds, s.Kind) {
				r.onAPI(ctx, s)
			} else {
				r.onPods(ctx, p, s)
			}
		})
		return
	}
	switch s.Kind {
	case Rolling:
		for _, n := range r.Cluster.Nodes() {
			r.onNode(ctx, n, func() { r.restart(n, "rolling restart of", r.Cluster.Terminate, 0) })
		}
	case Controller:
		r.killOf(ctx, s, "the controller", r.Controller)
	case Coordinator:
		r.killOf(ctx, s, "a coordinator of transactions", r.Coordinator)
	case Full:
		holding(ctx, r.volume, manyNodes, func() { r.during("the volume is full", s.For, r.Cluster.Fill, r.Cluster.Free) })
	case ServerPause, ServerKilled:
		holding(ctx, r.volume, manyNodes, func() { r.onServer(s) })
	case Holders:
		if n, ok := r.whoIs(ctx, s, r.Controller); ok {
			r.onNode(ctx, n, func() { r.node(Step{Kind: Pause, Node: n, For: s.For}) })
		}
	case APIPause, APIKill, APISlow, APICut, APICutOne, APIRestore, LeaseDelete:
		holding(ctx, r.api, 1, func() { r.onAPI(ctx, s) })
	case Clock:
		n, whose, ok := s.Node, "", true
		if n == 0 {
			whose = ", the controller's,"
			n, ok = r.whoIs(ctx, s, r.Controller)
		}
		if ok {
			r.onNode(ctx, n, func() { r.clock(n, whose, s) })
		}
	default:
		r.onNode(ctx, s.Node, func() { r.node(s) })
	}
}

// whoIs asks for the broker that a step is about.
func (r *Runner) whoIs(ctx context.Context, s Step, ask func(context.Context) (int32, error)) (int32, bool) {
	n, err := ask(ctx)
	if err != nil || r.nodes[n] == nil {
		r.tell(fmt.Sprintf("%s left out: asked for the broker, %d, %v", s.Kind, n, err), nil)
		return n, false
	}
	return n, true
}

// killOf kills a broker that is asked for, and starts it after a while.
func (r *Runner) killOf(ctx context.Context, s Step, whom string, ask func(context.Context) (int32, error)) {
	if n, ok := r.whoIs(ctx, s, ask); ok {
		r.onNode(ctx, n, func() { r.restart(n, fmt.Sprintf("kill of %s,", whom), r.Cluster.Kill, s.For) })
	}
}

func (r *Runner) onNode(ctx context.Context, n int32, do func()) {
	holding(ctx, r.nodes[n], 1, func() { holding(ctx, r.volume, 1, do) })
}

func holding(ctx context.Context, s *semaphore.Weighted, n int64, do func()) {
	if s.Acquire(ctx, n) != nil {
		return // the time is over
	}
	defer s.Release(n)
	if ctx.Err() == nil {
		do()
	}
}

func (r *Runner) node(s Step) {
	n, c := s.Node, r.Cluster
	switch s.Kind {
	case Kill:
		r.restart(n, "kill -9 of", c.Kill, s.For)
	case Graceful:
		r.restart(n, "graceful stop of", c.Terminate, 0)
	case Pause:
		r.during(fmt.Sprintf("broker %d is stopped", n), s.For, func() error { return c.Pause(n) }, func() error { return c.Resume(n) })
	case TakeOver:
		r.takeOver(n)
	case PauseTaken:
		r.during(fmt.Sprintf("broker %d is stopped and taken over", n), s.For,
			func() error { return errors.Join(c.Pause(n), c.TakeOver(context.Background(), n)) },
			func() error { return c.Resume(n) })
		r.fenced(n)
	default:
		r.host(s)
	}
}

// restart ends a broker, leaves it down for a while, and starts it.
func (r *Runner) restart(n int32, how string, end func(int32) error, down time.Duration) {
	at := r.Began(fmt.Sprintf("%s broker %d", how, n))
	r.Ended(at, fmt.Sprintf("%s broker %d", how, n), end(n))
	wait(down)
	at = r.Began(fmt.Sprintf("start of broker %d", n))
	r.Ended(at, fmt.Sprintf("start of broker %d", n), r.Cluster.Run(context.Background(), n))
}

func (r *Runner) takeOver(n int32) {
	what := fmt.Sprintf("a second process takes broker %d over", n)
	at := r.Began(what)
	r.Ended(at, what, r.Cluster.TakeOver(context.Background(), n))
	r.fenced(n)
}

func (r *Runner) fenced(n int32) {
	what := fmt.Sprintf("the earlier process of broker %d ends", n)
	at := r.Began(what)
	r.Ended(at, what, r.Cluster.AwaitFenced(n, fencedTime))
}

// during is a fault with a beginning and an end.
func (r *Runner) during(what string, lasts time.Duration, begin, end func() error) {
	at := r.Began(what)
	err := begin()
	wait(lasts)
	r.Ended(at, fmt.Sprintf("%s for %v", what, lasts), errors.Join(err, end()))
}

// timed is a part of a fault that is over when it returns.
func (r *Runner) timed(what string, do func() error) {
	at := r.Began(what)
	r.Ended(at, what, do())
}

func (r *Runner) tell(what string, err error) { r.Ended(r.Began(what), what, err) }

var errNoHosts = errors.New("this cluster has no hosts of its own")

func (r *Runner) host(s Step) {
	h, ok := r.Cluster.(cluster.Hosts)
	if !ok {
		r.tell(s.String(), errNoHosts)
		return
	}
	n := s.Node
	switch s.Kind {
	case HostPause:
		r.during(fmt.Sprintf("host %d is frozen", n), s.For, func() error { return h.PauseHost(n) }, func() error { return h.ResumeHost(n) })
	case Power:
		r.during(fmt.Sprintf("host %d has lost power", n), s.For, func() error { return h.PowerOff(n) }, func() error { return h.Boot(context.Background(), n) })
	case Cut:
		r.during(fmt.Sprintf("host %d has no network", n), s.For, func() error { return h.Cut(n) }, func() error { return h.Heal(n) })
	}
}

var errNoClocks = errors.New("this cluster has no clocks of its own")

// clock has a host's clock step, and step back after a while. One that is wrong all the time
// goes as far to the other side.
func (r *Runner) clock(n int32, whose string, s Step) {
	c, ok := r.Cluster.(cluster.Clocks)
	if !ok {
		r.tell(s.String(), errNoClocks)
		return
	}
	by := s.By
	if r.Off[n] != 0 {
		by = -r.Off[n]
	}
	r.during(fmt.Sprintf("the clock of host %d%s is %s", n, whose, tellClock(by)), s.For,
		func() error { return c.SetClock(n, by) }, func() error { return c.SetClock(n, r.Off[n]) })
}

func (r *Runner) onServer(s Step) {
	h, ok := r.Cluster.(cluster.Hosts)
	if !ok {
		r.tell(s.String(), errNoHosts)
		return
	}
	if s.Kind == ServerPause {
		r.during("the file server hangs", s.For, h.HangServer, h.ResumeServer)
		return
	}
	r.during("the file server is killed, and away", s.For, h.KillServer, func() error { return h.StartServer(context.Background()) })
}

var errNoAPI = errors.New("no API server elects the controller of this cluster")

func (r *Runner) onAPI(ctx context.Context, s Step) {
	a, ok := r.Cluster.(cluster.API)
	if !ok {
		r.tell(s.String(), errNoAPI)
		return
	}
	all := context.Background()
	switch s.Kind {
	case APIPause:
		r.during("the API server is stopped", s.For, a.PauseAPI, a.ResumeAPI)
	case APISlow:
		r.during("the API server takes 2 s for each call", s.For, func() error { return a.SlowAPI(2 * time.Second) }, func() error { return a.SlowAPI(0) })
	case APICut:
		r.during("nobody reaches the API server", s.For, func() error { return a.CutAPI(r.Cluster.Nodes()...) }, a.HealAPI)
	case APICutOne:
		if n, ok := r.whoIs(ctx, s, r.Controller); ok {
			r.during(fmt.Sprintf("broker %d, the controller, does not reach the API server", n), s.For, func() error { return a.CutAPI(n) }, a.HealAPI)
		}
	case APIKill:
		r.during("the API server is killed", 0, func() error { return a.KillAPI(all) }, func() error { return nil })
	case APIRestore:
		r.during("the API server is given what it knew at the beginning", 0, func() error { return a.RestoreAPI(all) }, func() error { return nil })
	case LeaseDelete:
		r.during("the Lease is deleted", 0, func() error { return a.DeleteLease(all) }, func() error { return nil })
	}
}

// onPods carries out a step about pods, of which each but a scaling is over when it returns.
func (r *Runner) onPods(ctx context.Context, p cluster.Pods, s Step) {
	all, nothing := context.Background(), func() error { return nil }
	n := s.Node
	switch s.Kind {
	case Graceful:
		r.during(fmt.Sprintf("pod of broker %d is deleted", n), 0, func() error { return r.Cluster.Terminate(n) }, nothing)
	case Kill:
		r.during(fmt.Sprintf("pod of broker %d is deleted without grace: a kill", n), 0, func() error { return r.Cluster.Kill(n) }, nothing)
	case PodUpgrade:
		r.during("all brokers are given another image", 0, func() error { return p.Upgrade(all) }, nothing)
	case PodEvict:
		r.during("every pod is evicted in turn", 0, func() error { return p.Evict(all) }, nothing)
	case PodScale:
		n := len(r.Cluster.Nodes())
		r.during(fmt.Sprintf("%d brokers become %d", n, n+2), 0, func() error { return p.Scale(all, n+2) }, nothing)
		wait(s.For)
		r.during(fmt.Sprintf("%d brokers become %d", n+2, n), 0, func() error { return p.Scale(all, n) }, nothing)
	case PodStorm:
		for _, apart := range []time.Duration{0, 5 * time.Second, 10 * time.Second} {
			r.timed(fmt.Sprintf("all brokers are killed at once, and started %v apart", apart), func() error { return p.KillAll(all, apart) })
			r.timed("until leaders are evenly spread", r.even)
			r.timed("until all brokers are ready", r.ready)
		}
	default:
		r.tell(s.String(), errors.New("not for pods"))
	}
}

// evenTime is how long it may take after the last broker of a storm was started.
const evenTime = time.Minute

func (r *Runner) even() error {
	ctx, cancel := context.WithTimeout(context.Background(), evenTime)
	defer cancel()
	return r.Even(ctx)
}

func (r *Runner) ready() (err error) {
	for _, n := range r.Cluster.Nodes() {
		err = errors.Join(err, r.Cluster.Run(context.Background(), n))
	}
	return err
}

// wait is for the length of a fault, which nothing cuts short: what was stopped would
// stay so.
func wait(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}
