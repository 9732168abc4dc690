package simlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/projections"
)

const (
	// Volume is the volume's ID.
	Volume = "vol"
	// Offline is the host of the tool, whose calls fail now and then.
	Offline = "c"
)

// Lab is a cluster of two brokers that are processes of simulated hosts.
type Lab struct {
	Sim *nfssim.Sim
	Rng *rand.Rand
	Ctx context.Context // ends with the brokers

	wires *wires
	wg    sync.WaitGroup
	mu    struct {
		sync.Mutex
		leads bool
		terms int
	}
}

// Run has brokers serve until life returns. All that is drawn follows from the seed.
func Run(t *testing.T, seed int64, life func(*Lab) error) (err error) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		cfg := sweep.Config(seed, rng)
		cfg.Pause, cfg.LostReply = -1, 0
		cfg.StaleIn = func(dir string) bool { return strings.HasPrefix(dir, "meta") }
		faults := sweep.Faults(seed, []float64{0, 0.005, 0.02}[rng.IntN(3)])
		cfg.Fault = func(op nfssim.Op) error {
			// Whoever reads a long history would hardly ever come to its end.
			if op.Host != Offline || op.Kind == nfssim.OpOpen || op.Kind == nfssim.OpRead || op.Kind == nfssim.OpList || op.Kind == nfssim.OpClose {
				return nil
			}
			return faults(op)
		}
		ctx, cancel := context.WithCancel(context.Background())
		l := &Lab{Sim: nfssim.New(cfg), Rng: rng, Ctx: ctx, wires: &wires{brokers: map[int32]*coordinator.Broker{}}}
		for i := range int32(2) {
			l.wg.Go(func() { l.broker(i + 1) })
		}
		if err = life(l); err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(l.Sim.Trace(), "\n"))
		}
		l.Sim.Stop()
		cancel()
		l.wg.Wait()
		sleep.For(context.Background(), 10*time.Minute) // for what a Stop has left behind
	})
	return err
}

// Brokers are those that have started, in the order of their IDs.
func (l *Lab) Brokers() []*coordinator.Broker { return l.wires.all() }

// Terms is how many times a broker has begun to be controller.
func (l *Lab) Terms() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.terms
}

// broker is a process that serves until the end.
func (l *Lab) broker(id int32) {
	host := []string{"a", "b"}[id-1]
	p := l.Sim.Host(host).Process()
	var b *coordinator.Broker
	for b == nil {
		v := &substrate.Volume{FS: p, NewID: sweep.IDs(host)}
		err := v.Init(Volume)
		if err == nil {
			b, err = coordinator.Start(l.Ctx, v, l.options(id, host))
		}
		if err != nil && !sleep.For(l.Ctx, time.Second) {
			return
		}
	}
	l.wires.add(id, b)
	select {
	case <-l.Ctx.Done():
	case <-b.Done():
		l.wires.fail(fmt.Errorf("broker %d has ended: %w", id, b.Err()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = b.Stop(ctx)
}

func (l *Lab) options(id int32, host string) coordinator.Options {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("KAAS_SIM_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", id)
	}
	opt := coordinator.Options{NodeID: id, Host: host, Log: log, Peers: l.wires, GroupShards: 1, TxnShards: 1,
		Incarnation: uuid.NewSHA1(uuid.Nil, []byte(host)).String(), Listeners: []projections.Listener{{Name: "P", Host: host, Port: id}},
		FollowInterval: time.Second, HeartbeatInterval: 2 * time.Second, CheckInterval: 2 * time.Second, StallAfter: time.Minute,
		SpaceInterval: time.Minute, NewTopicID: func() projections.TopicID { return projections.TopicID{15: 1} }}
	opt.ElectBy(l.elect(id))
	return opt
}

// elect lets one broker lead at a time, the first first.
func (l *Lab) elect(id int32) func(context.Context, election.Config) error {
	return func(ctx context.Context, cfg election.Config) error {
		for sleep.For(ctx, time.Duration(id)*300*time.Millisecond) {
			l.mu.Lock()
			mine := !l.mu.leads
			l.mu.leads = true
			if mine {
				l.mu.terms++
			}
			l.mu.Unlock()
			if mine {
				cfg.Lead(ctx)
				l.mu.Lock()
				l.mu.leads = false
				l.mu.Unlock()
			}
		}
		return nil
	}
}

// Do runs f with whoever is controller until it succeeds.
func (l *Lab) Do(f func(context.Context, *coordinator.Broker) error) error {
	return On(l.Sim, func(context.Context) (err error) {
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); sleep.For(l.Ctx, 200*time.Millisecond) {
			if err = l.wires.bad(); err != nil {
				return err
			}
			err = errors.New("there is no controller")
			for _, b := range l.Brokers() {
				if b.IsController() {
					ctx, cancel := context.WithTimeout(l.Ctx, 20*time.Second)
					err = f(ctx, b)
					cancel()
				}
			}
			if err == nil {
				return nil
			}
		}
		return err
	})
}

// While runs f, until its context ends, beside something else that is done.
func (l *Lab) While(something func() error, fs ...func(context.Context)) error {
	ctx, quit := context.WithCancel(l.Ctx)
	var busy sync.WaitGroup
	for _, f := range fs {
		busy.Go(func() { f(ctx) })
	}
	err := something()
	quit()
	if err != nil {
		return err
	}
	return On(l.Sim, func(context.Context) error { busy.Wait(); return nil })
}

// Twice has the tool work as a process that may be killed at one of its first calls, and be run
// again then by one that is not. The error is that of the second process.
func (l *Lab) Twice(name string, calls int, noSeal bool, work func(context.Context, *substrate.Volume) error) (killed bool, err error) {
	for round := range 2 {
		p := l.Sim.Host(Offline).Process()
		v := &substrate.Volume{FS: p, NewID: sweep.IDs(fmt.Sprintf("%s%d", name, round)), ID: Volume, Breaks: substrate.Breaks{NoSeal: noSeal}}
		ctx, cancel := context.WithCancel(l.Ctx)
		var over atomic.Bool
		go func() {
			defer over.Store(true)
			err = work(ctx, v)
		}()
		began, killAt := l.Sim.Ops(), 1<<30
		if round == 0 && l.Rng.IntN(4) > 0 {
			killAt = l.Rng.IntN(calls) // brokers' calls count, too
		}
		serr := l.Sim.Run(func() bool { return over.Load() || l.Sim.Ops() >= began+killAt })
		if serr == nil && !over.Load() {
			killed = true
			p.Kill()
			cancel()
			serr = l.Sim.Run(over.Load)
		}
		cancel()
		if serr != nil {
			return killed, serr
		}
	}
	return killed, err
}

// Pass lets brokers and their clients do so many calls.
func (l *Lab) Pass(calls int) error {
	end := l.Sim.Ops() + calls
	return l.Sim.Run(func() bool { return l.Sim.Ops() >= end })
}
