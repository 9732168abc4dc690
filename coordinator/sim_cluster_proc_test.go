package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// simProc is one broker's process, with clients of its own.
type simProc struct {
	w      *clusterSim
	id     int32
	host   string
	port   int32
	name   string
	fs     *nfssim.Process
	b      atomic.Pointer[Broker]
	first  string // its first data session
	ctx    context.Context
	cancel context.CancelFunc // has it stop
	retire atomic.Bool        // asks for its leave before it stops
	dead   atomic.Bool        // was killed
	over   atomic.Bool
	seeds  rand.Source
	sent   atomic.Int64
}

func partitionsOf(cfg partition.Config) func(*projections.Cluster, *projections.Topic) partition.Config {
	return func(*projections.Cluster, *projections.Topic) partition.Config { return cfg }
}

// start begins a process on a host.
func (w *clusterSim) start(id int32, host string) *simProc {
	port := int32(len(w.procs) + 1)
	p := &simProc{w: w, id: id, host: host, port: port, name: fmt.Sprintf("%s%d", host, port), fs: w.sim.Host(host).Process(),
		seeds: rand.NewPCG(w.rng.Uint64(), uint64(port))}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	w.procs = append(w.procs, p)
	w.net.faults.Lock()
	w.net.faults.hosts[port] = host
	w.net.faults.Unlock()
	w.net.listen(port)
	w.wg.Go(p.live)
	return p
}

func (p *simProc) options() Options {
	opt := p.w.opt
	opt.NodeID, opt.Peers, opt.elect, opt.Host = p.id, simPeers{p}, p.w.vote.stand(p), p.host
	opt.Incarnation = uuid.NewSHA1(uuid.Nil, []byte(p.name)).String()
	opt.Listeners = []projections.Listener{{Name: "PLAINTEXT", Host: p.host, Port: p.port}}
	return opt
}

// begin is Start, tried again as whatever runs brokers does.
func (p *simProc) begin() *Broker {
	ids := sweep.IDs(p.name)
	for {
		v := &substrate.Volume{FS: p.fs, NewID: ids, Breaks: p.w.rules}
		if p.port%2 == 0 {
			v.FS = substrate.NewPool(p.fs, substrate.PoolLimits{})
		}
		err := v.Init("")
		if err == nil {
			var b *Broker
			if b, err = Start(p.ctx, v, p.options()); err == nil {
				return b
			}
		}
		if errors.Is(err, substrate.ErrFenced) || p.ctx.Err() != nil || !sleep.For(p.ctx, time.Second) {
			return nil
		}
	}
}

func (p *simProc) live() {
	defer p.over.Store(true)
	defer p.w.net.drop(p.port, p.id)
	b := p.begin()
	if b == nil {
		return
	}
	p.first = b.dataSession()
	p.b.Store(b)
	p.w.net.add(p.port, b)
	p.w.note(func() { p.w.starts++ })
	clients, quit := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, client := range []func(context.Context, *Broker, *rand.Rand){p.produce, p.observe, p.administer} {
		rng := rand.New(rand.NewPCG(p.seeds.Uint64(), 1))
		wg.Go(func() {
			for clients.Err() == nil && b.run.Err() == nil {
				ctx, cancel := context.WithTimeout(clients, 20*time.Second)
				client(ctx, b, rng)
				cancel()
			}
		})
	}
	select {
	case <-p.ctx.Done():
	case <-b.Done():
	}
	if p.retire.Load() && !p.dead.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_ = b.Retire(ctx)
		cancel()
	}
	quit()
	wg.Wait()
	if errors.Is(b.Err(), substrate.ErrFenced) {
		p.w.note(func() { p.w.fenced++ })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = b.Stop(ctx)
}

// kill is SIGKILL: the kernel closes its connections.
func (p *simProc) kill() {
	p.dead.Store(true)
	p.fs.Kill()
	p.w.net.drop(p.port, p.id)
	p.cancel()
}

// crash is a host's power loss: nobody hears of it.
func (w *clusterSim) crash(host string) {
	w.sim.Host(host).PowerLoss()
	if w.local {
		host = ""
	}
	w.darken(host)
}

// darken makes the processes of a host, or all, dead.
func (w *clusterSim) darken(host string) {
	for _, p := range w.procs {
		if !p.over.Load() && (host == "" || p.host == host) {
			p.dead.Store(true)
			w.net.add(p.port, nil)
			p.cancel()
		}
	}
}

// freeze is a paused host; freezeVolume one that the server does not answer.
func (w *clusterSim) freeze(host string) {
	w.net.pause(host, true)
	w.freezeVolume(host)
}

func (w *clusterSim) freezeVolume(host string) { w.sim.Host(host).Freeze() }

func (w *clusterSim) thaw(host string) {
	w.sim.Host(host).Thaw()
	w.net.pause(host, false)
}

func (w *clusterSim) hang(name string, match func(nfssim.Op) bool) {
	w.note(func() { w.hangs[name] = match })
	w.rehang()
}

func (w *clusterSim) unhang(name string) {
	w.note(func() { delete(w.hangs, name) })
	w.rehang()
}

func (w *clusterSim) rehang() {
	w.sim.Unhang()
	w.note(func() {
		var ms []func(nfssim.Op) bool
		for _, h := range hostNames {
			if m := w.hangs[h]; m != nil {
				ms = append(ms, m)
			}
		}
		if len(ms) == 0 {
			return
		}
		w.sim.Hang(func(op nfssim.Op) bool {
			for _, m := range ms {
				if m(op) {
					return true
				}
			}
			return false
		})
	})
}

// administer is one request to a controller.
func (p *simProc) administer(ctx context.Context, b *Broker, rng *rand.Rand) {
	w := p.w
	defer func() { sleep.For(ctx, time.Duration(rng.IntN(1500))*time.Millisecond) }()
	if w.calm.Load() {
		return
	}
	if !b.IsController() {
		if rng.IntN(20) == 0 {
			w.allocate(ctx, b)
		}
		return
	}
	topics := len(b.View().Topics())
	switch n := rng.IntN(12); {
	case n == 0 && topics > 1:
		w.remove(ctx, b, rng)
	case n == 1:
		w.alter(ctx, b, rng)
	case n == 2:
		w.grow(ctx, b, rng)
	case n == 3:
		w.allocate(ctx, b)
	case n <= 5:
		p.moveLeaders(ctx, b, rng)
	case topics < 4:
		w.create(ctx, b, rng, 5)
	}
}

func (p *simProc) moveLeaders(ctx context.Context, b *Broker, rng *rand.Rand) {
	topic := pick(b, rng)
	if topic == nil {
		return
	}
	var moves []LeaderMove
	for i := range topic.Partitions {
		moves = append(moves, LeaderMove{TopicID: topic.ID, Partition: int32(i), To: 1 + rng.Int32N(3)})
	}
	for _, err := range b.MoveLeaders(ctx, moves) {
		if err == nil {
			p.w.note(func() { p.w.st.moved++ })
		}
	}
}
