package users

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/projections"
)

// TestSweepRunning has two brokers make changes while users are changed by a process that is
// killed at any of its calls, or is not, and is run again then. Both brokers show the users as
// they are to be, and nothing that a client was told is done is undone.
func TestSweepRunning(t *testing.T) {
	var total runningStats
	sweep.Run(t, 40, func(seed int64) error {
		st, err := runningSweep(t, seed, false)
		total.killed += st.killed
		total.made += st.made
		total.moved += st.moved
		return err
	})
	t.Logf("%+v", total)
	if total.killed == 0 || total.made == 0 || total.moved == 0 {
		t.Errorf("the sweep did nothing: %+v", total)
	}
}

// TestSweepCatchesRunning leaves the owners unsealed: the sweep must fail.
func TestSweepCatchesRunning(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	sweep.Catches(t, 200, func(seed int64) error { _, err := runningSweep(t, seed, true); return err })
}

// runningStats are how many processes were killed, how many changes brokers acknowledged, and
// how many controllers were followed by others.
type runningStats struct{ killed, made, moved int }

// running is a cluster whose brokers are processes of simulated hosts.
type running struct {
	sim *nfssim.Sim
	rng *rand.Rand
	net *wires
	wg  sync.WaitGroup
	ctx context.Context
	mu  struct {
		sync.Mutex
		leads bool
		terms int
		made  int // the highest number that a client was told is set
	}
}

func runningSweep(t *testing.T, seed int64, noSeal bool) (st runningStats, err error) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		cfg := sweep.Config(seed, rng)
		cfg.Pause, cfg.LostReply = -1, 0
		cfg.StaleIn = func(dir string) bool { return strings.HasPrefix(dir, "meta") }
		faults := sweep.Faults(seed, []float64{0, 0.005, 0.02}[rng.IntN(3)])
		cfg.Fault = func(op nfssim.Op) error {
			// Whoever reads a long history would hardly ever come to its end.
			if op.Host != offline || op.Kind == nfssim.OpOpen || op.Kind == nfssim.OpRead || op.Kind == nfssim.OpList || op.Kind == nfssim.OpClose {
				return nil
			}
			return faults(op)
		}
		r := &running{sim: nfssim.New(cfg), rng: rng, net: &wires{brokers: map[int32]*coordinator.Broker{}}}
		ctx, cancel := context.WithCancel(context.Background())
		r.ctx = ctx
		err = r.life(noSeal, &st)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(r.sim.Trace(), "\n"))
		}
		r.sim.Stop()
		cancel()
		r.wg.Wait()
		time.Sleep(10 * time.Minute)
		st.made, st.moved = r.mu.made, r.mu.terms-1
	})
	return st, err
}

// offline is the host where users are changed, whose calls fail now and then.
const offline = "c"

func (r *running) life(noSeal bool, st *runningStats) error {
	for i := range int32(2) {
		r.wg.Go(func() { r.broker(i + 1) })
	}
	var topic *projections.Topic
	if err := r.do(func(ctx context.Context, b *coordinator.Broker) (err error) {
		if topic = b.View().Topic("t"); topic == nil {
			topic, err = b.CreateTopic(ctx, coordinator.TopicSpec{Name: "t", Partitions: 1}, false)
		}
		return err
	}); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	clients, quit := context.WithCancel(r.ctx)
	var busy sync.WaitGroup
	busy.Go(func() { r.alter(clients, topic.ID) })
	err := r.changes(noSeal, st)
	quit()
	if err == nil {
		var over atomic.Bool
		go func() { busy.Wait(); over.Store(true) }()
		err = r.sim.Run(over.Load)
	}
	if err != nil {
		return err
	}
	return r.do(func(_ context.Context, b *coordinator.Broker) error { return r.settled(topic.ID) })
}

// changes has alice be added, get another password, be removed, and be added for good, each by
// a process that may be killed and is followed by one that is not.
func (r *running) changes(noSeal bool, st *runningStats) error {
	for step, change := range []func(context.Context, *substrate.Volume) error{
		func(ctx context.Context, v *substrate.Volume) error { return add(ctx, v, 1) },
		func(ctx context.Context, v *substrate.Volume) error { return add(ctx, v, 2) },
		remove,
		func(ctx context.Context, v *substrate.Volume) error { return add(ctx, v, 3) },
	} {
		for round := range 2 {
			p := r.sim.Host(offline).Process()
			v := &substrate.Volume{FS: p, NewID: sweep.IDs(fmt.Sprintf("users%d.%d", step, round)), ID: simVolume, Breaks: substrate.Breaks{NoSeal: noSeal}}
			ctx, cancel := context.WithCancel(r.ctx)
			var over atomic.Bool
			var err error
			go func() {
				defer over.Store(true)
				err = retry(ctx, func() error { return change(ctx, v) })
			}()
			began, killAt := r.sim.Ops(), 1<<30
			if round == 0 && r.rng.IntN(4) > 0 {
				killAt = r.rng.IntN(300) // brokers' calls count, too
			}
			serr := r.sim.Run(func() bool { return over.Load() || r.sim.Ops() >= began+killAt })
			if serr == nil && !over.Load() {
				st.killed++
				p.Kill()
				cancel()
				serr = r.sim.Run(over.Load)
				err = nil
			}
			cancel()
			if serr != nil {
				return serr
			}
			if err != nil && round == 1 && !errors.Is(err, ErrNoCredential) {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		n := r.sim.Ops() + 300 // of brokers and clients alone
		if err := r.sim.Run(func() bool { return r.sim.Ops() >= n }); err != nil {
			return err
		}
	}
	return nil
}

// alter sets ever higher numbers, through whoever is controller.
func (r *running) alter(ctx context.Context, topic projections.TopicID) {
	for n := 1; wait(ctx, 100*time.Millisecond); n++ {
		for _, b := range r.net.all() {
			if !b.IsController() {
				continue
			}
			one, cancel := context.WithTimeout(r.ctx, 20*time.Second)
			set := map[string]string{"retention.ms": strconv.Itoa(n)}
			err := b.AlterTopicConfigs(one, topic, func(*projections.Cluster, map[string]string) (map[string]string, error) { return set, nil }, false)
			cancel()
			if err == nil {
				r.mu.Lock()
				r.mu.made = n
				r.mu.Unlock()
			}
		}
	}
}

// settled is nil when both brokers show alice as she was added last, and what clients were told
// is set.
func (r *running) settled(topic projections.TopicID) error {
	r.mu.Lock()
	made := r.mu.made
	r.mu.Unlock()
	for _, b := range r.net.all() {
		if salt, err := saltOf(b.View()); err != nil || salt != 3 {
			return fmt.Errorf("a broker shows alice with salt %d, %w", salt, err)
		}
		t := b.View().TopicByID(topic)
		if t == nil {
			return errors.New("a broker does not show the topic")
		}
		if n, _ := strconv.Atoi(t.Configs["retention.ms"]); n < made {
			return fmt.Errorf("a broker shows %d, and %d was acknowledged", n, made)
		}
		if !b.Ready() {
			return errors.New("a broker does not serve all that it leads")
		}
	}
	return nil
}

// broker is a process that serves until the end.
func (r *running) broker(id int32) {
	host := []string{"a", "b"}[id-1]
	p := r.sim.Host(host).Process()
	var b *coordinator.Broker
	for b == nil {
		v := &substrate.Volume{FS: p, NewID: sweep.IDs(host)}
		err := v.Init(simVolume)
		if err == nil {
			b, err = coordinator.Start(r.ctx, v, r.options(id, host))
		}
		if err != nil && !wait(r.ctx, time.Second) {
			return
		}
	}
	r.net.add(id, b)
	select {
	case <-r.ctx.Done():
	case <-b.Done():
		r.net.fail(fmt.Errorf("broker %d has ended: %w", id, b.Err()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = b.Stop(ctx)
}

func (r *running) options(id int32, host string) coordinator.Options {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("KAAS_SIM_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", id)
	}
	opt := coordinator.Options{NodeID: id, Host: host, Log: log, Peers: r.net, GroupShards: 1, TxnShards: 1,
		Incarnation: uuid.NewSHA1(uuid.Nil, []byte(host)).String(), Listeners: []projections.Listener{{Name: "P", Host: host, Port: id}},
		FollowInterval: time.Second, HeartbeatInterval: 2 * time.Second, CheckInterval: 2 * time.Second, StallAfter: time.Minute,
		SpaceInterval: time.Minute, NewTopicID: func() projections.TopicID { return projections.TopicID{15: 1} }}
	opt.ElectBy(r.elect(id))
	return opt
}

// elect lets one broker lead at a time, the first first.
func (r *running) elect(id int32) func(context.Context, election.Config) error {
	return func(ctx context.Context, cfg election.Config) error {
		for wait(ctx, time.Duration(id)*300*time.Millisecond) {
			r.mu.Lock()
			mine := !r.mu.leads
			r.mu.leads = true
			if mine {
				r.mu.terms++
			}
			r.mu.Unlock()
			if mine {
				cfg.Lead(ctx)
				r.mu.Lock()
				r.mu.leads = false
				r.mu.Unlock()
			}
		}
		return nil
	}
}

// do runs something with whoever is controller until it succeeds.
func (r *running) do(f func(context.Context, *coordinator.Broker) error) error {
	return on(r.sim, func(context.Context) (err error) {
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); wait(r.ctx, 200*time.Millisecond) {
			if err = r.net.bad(); err != nil {
				return err
			}
			err = errors.New("there is no controller")
			for _, b := range r.net.all() {
				if b.IsController() {
					ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
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

func wait(ctx context.Context, d time.Duration) bool { sweep.Pause(ctx, d); return ctx.Err() == nil }

// wires join the brokers of a test: they ask each other directly, by node ID.
type wires struct {
	mu      sync.Mutex
	brokers map[int32]*coordinator.Broker
	err     error
}

func (w *wires) add(id int32, b *coordinator.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.brokers[id] = b
}

func (w *wires) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *wires) bad() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *wires) all() (out []*coordinator.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.brokers)) {
		out = append(out, w.brokers[id])
	}
	return out
}

// Ask implements coordinator.Peers.
func (w *wires) Ask(ctx context.Context, to projections.Listener, req kmsg.Request) (kmsg.Response, error) {
	w.mu.Lock()
	b := w.brokers[to.Port]
	w.mu.Unlock()
	if b == nil {
		if to.Port > 0 { // it listens, and does not answer yet
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, syscall.ECONNREFUSED
	}
	switch q := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return q.ResponseKind(), nil
	case *kmsg.BrokerRegistrationRequest:
		return b.RegisterBroker(ctx, q), nil
	case *kmsg.BrokerHeartbeatRequest:
		return b.BrokerHeartbeat(ctx, q), nil
	}
	return nil, fmt.Errorf("nobody answers a %T here", req)
}

// Stay implements coordinator.Peers.
func (w *wires) Stay(ctx context.Context, _ projections.Listener) { <-ctx.Done() }

// Close implements coordinator.Peers.
func (w *wires) Close() {}
