package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/projections"
)

// TestSweep has broker processes with one node ID take the volume from each other
// on hosts that lose replies, crash and fail, while topics are made, grown, altered
// and deleted and producer IDs are allocated. A fresh process at the end must show everything that
// was acknowledged, serve it, and leave no files of what was deleted.
func TestSweep(t *testing.T) {
	first, n := int64(1), int64(100)
	if s := os.Getenv("KAAS_SIM_SEED"); s != "" {
		first, _ = strconv.ParseInt(s, 10, 64)
	}
	if s := os.Getenv("KAAS_SIM_SEEDS"); s != "" {
		n, _ = strconv.ParseInt(s, 10, 64)
	} else if testing.Short() {
		n = 20
	}
	var total simStats
	for seed := first; seed < first+n; seed++ {
		st, err := simulate(t, seed)
		if err != nil {
			t.Fatalf("seed %d (again: KAAS_SIM_SEED=%d KAAS_SIM_SEEDS=1): %v", seed, seed, err)
		}
		total.created += st.created
		total.deleted += st.deleted
		total.blocks += st.blocks
		total.starts += st.starts
		total.fenced += st.fenced
		total.altered += st.altered
		total.grown += st.grown
	}
	t.Logf("%+v", total)
	if total.created == 0 || total.deleted == 0 || total.blocks == 0 || total.fenced == 0 || total.altered == 0 || total.grown == 0 {
		t.Errorf("the sweep did nothing: %+v", total)
	}
}

type simStats struct{ created, deleted, blocks, starts, fenced, altered, grown int }

// simWorld is what was acknowledged to clients.
type simWorld struct {
	mu      sync.Mutex
	living  map[projections.TopicID]string // made, and not asked to be deleted since
	asked   map[projections.TopicID]bool   // to be deleted, whatever came of it
	deleted map[projections.TopicID]bool
	blocks  map[int64]bool
	added   map[projections.TopicID][]string // to the topic's list
	sizes   map[projections.TopicID]int32    // partitions
	bad     error
	simStats

	names atomic.Int64 // for new names and IDs
}

func newSimWorld() *simWorld {
	return &simWorld{living: map[projections.TopicID]string{}, asked: map[projections.TopicID]bool{}, deleted: map[projections.TopicID]bool{}, blocks: map[int64]bool{},
		added: map[projections.TopicID][]string{}, sizes: map[projections.TopicID]int32{}}
}

func (w *simWorld) note(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *simWorld) violate(format string, a ...any) {
	if w.bad == nil {
		w.bad = fmt.Errorf(format, a...)
	}
}

func (w *simWorld) volume(fs substrate.FS) (*substrate.Volume, error) {
	if w.names.Load()%2 == 0 {
		fs = substrate.NewPool(fs, substrate.PoolLimits{})
	}
	v := &substrate.Volume{FS: fs, NewID: func() string { return fmt.Sprintf("n%d", w.names.Add(1)) }}
	return v, v.Init("")
}

func (w *simWorld) options() Options {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	if os.Getenv("KAAS_SIM_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return Options{NodeID: 1, Log: log, Peers: &network{}, elect: electAtOnce,
		FollowInterval: 2 * time.Second, HeartbeatInterval: 5 * time.Second, SessionTimeout: time.Minute, StallAfter: time.Minute,
		GroupShards: 2, TxnShards: 2, Ballast: 1000, NewTopicID: func() projections.TopicID {
			n := w.names.Add(1)
			return projections.TopicID{0: 1, 14: byte(n >> 8), 15: byte(n)}
		}}
}

// electAtOnce is an election of one that is always won, as by a process whose node ID
// holds the lock already.
func electAtOnce(ctx context.Context, cfg election.Config) error {
	for first := true; first || sleep.For(ctx, time.Second); first = false {
		cfg.Lead(ctx)
	}
	return nil
}

// live is one process: it serves until ctx ends or it is fenced. A start that
// fails is tried again, as whatever runs brokers does.
func (w *simWorld) live(ctx context.Context, fs substrate.FS, rng *rand.Rand) {
	var b *Broker
	for {
		v, err := w.volume(fs)
		if err == nil {
			b, err = Start(ctx, v, w.options())
		}
		if err == nil {
			break
		}
		if ctx.Err() != nil || !sleep.For(ctx, time.Second) {
			return
		}
	}
	w.note(func() { w.starts++ })
	for ctx.Err() == nil && b.run.Err() == nil {
		c, cancel := context.WithTimeout(ctx, 20*time.Second)
		w.ask(c, b, rng)
		cancel()
	}
	if errors.Is(b.Err(), substrate.ErrFenced) {
		w.note(func() { w.fenced++ })
	}
	c, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = b.Stop(c)
}

// ask is one request of a client.
func (w *simWorld) ask(ctx context.Context, b *Broker, rng *rand.Rand) {
	switch rng.IntN(6) {
	case 2:
		w.alter(ctx, b, rng)
	case 3:
		w.grow(ctx, b, rng)
	case 0:
		w.allocate(ctx, b)
	case 1:
		w.remove(ctx, b, rng)
	default:
		w.create(ctx, b, rng, 4)
	}
}

func (w *simWorld) allocate(ctx context.Context, b *Broker) {
	first, _, err := b.AllocateProducerIDs(ctx)
	w.note(func() {
		if err == nil {
			if w.blocks[first] {
				w.violate("producer IDs from %d were handed out twice", first)
			}
			w.blocks[first] = true
			w.simStats.blocks++
		}
	})
}

func (w *simWorld) remove(ctx context.Context, b *Broker, rng *rand.Rand) {
	ts := b.View().Topics()
	if len(ts) == 0 {
		return
	}
	id := ts[rng.IntN(len(ts))].ID
	w.note(func() { w.asked[id] = true; delete(w.living, id) })
	err := b.DeleteTopic(ctx, id)
	w.note(func() {
		if err == nil {
			w.deleted[id] = true
			w.simStats.deleted++
		}
	})
}

// create makes a topic of one of n names.
func (w *simWorld) create(ctx context.Context, b *Broker, rng *rand.Rand, n int) {
	name := fmt.Sprintf("t%d", rng.IntN(n))
	topic, err := b.CreateTopic(ctx, TopicSpec{Name: name, Partitions: 1 + rng.Int32N(3)}, false)
	if err == nil {
		w.note(func() {
			w.created++
			if !w.asked[topic.ID] {
				w.living[topic.ID] = name
			}
		})
	} else if errors.Is(err, kerr.TopicAlreadyExists) {
		sleep.For(ctx, time.Second)
	}
}

func simulate(t *testing.T, seed int64) (st simStats, err error) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		cfg := nfssim.Config{Seed: seed, Delegations: rng.IntN(2) == 0, Local: rng.IntN(4) == 0, TraceLen: 60,
			LostReply: []float64{0, 0.01, 0.05}[rng.IntN(3)], Late: []float64{0, 0.5}[rng.IntN(2)]}
		faults := []float64{0, 0.001, 0.01}[rng.IntN(3)]
		frng := rand.New(rand.NewPCG(uint64(seed), 2))
		var healthy atomic.Bool
		fullFrom, hangFrom := 1+rng.IntN(4000), 1+rng.IntN(4000) // calls; most runs have both
		cfg.Fault = func(op nfssim.Op) error {
			if !healthy.Load() && op.N >= fullFrom && op.N < fullFrom+300 {
				switch op.Kind {
				case nfssim.OpWrite, nfssim.OpCreate, nfssim.OpMkdir, nfssim.OpDatasync:
					return syscall.ENOSPC
				}
			}
			if healthy.Load() || frng.Float64() >= faults {
				return nil
			}
			e := []error{syscall.EIO, syscall.ENOSPC}[frng.IntN(2)]
			if frng.IntN(2) == 0 {
				return nfssim.Applied(e)
			}
			return e
		}
		sim := nfssim.New(cfg)
		defer sim.Stop()
		sim.At(hangFrom, func() {
			sim.Hang(func(op nfssim.Op) bool { return strings.HasPrefix(op.Name, "topics/") })
			time.AfterFunc(time.Duration(1+hangFrom%60)*time.Second, sim.Unhang)
		})
		w := newSimWorld()
		if err = w.generations(sim, rng); err == nil {
			healthy.Store(true)
			err = w.judge(sim)
		}
		if err == nil {
			err = w.bad
		}
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(sim.Trace(), "\n"))
		}
		st = w.simStats
	})
	return st, err
}

// generations runs processes that overlap, stop, or are killed.
func (w *simWorld) generations(sim *nfssim.Sim, rng *rand.Rand) error {
	var wg sync.WaitGroup
	var alive atomic.Int32 // a broker that cannot tell whether it was fenced ends by itself
	var cancels []context.CancelFunc
	for g := range 2 + rng.IntN(3) {
		p := sim.Host([]string{"a", "b"}[rng.IntN(2)]).Process()
		ctx, cancel := context.WithCancel(context.Background())
		cancels = append(cancels, cancel)
		lrng := rand.New(rand.NewPCG(rng.Uint64(), uint64(g)))
		alive.Add(1)
		wg.Go(func() { defer alive.Add(-1); w.live(ctx, p, lrng) })
		end := sim.Ops() + 200 + rng.IntN(1500)
		if err := sim.Run(func() bool { return sim.Ops() >= end || alive.Load() == 0 }); err != nil {
			return err
		}
		switch rng.IntN(3) {
		case 0:
			p.Kill()
			cancel()
		case 1:
			cancel() // stops cleanly, while the next may start
		}
	}
	for _, cancel := range cancels {
		cancel()
	}
	var left atomic.Bool
	go func() { wg.Wait(); left.Store(true) }()
	return sim.Run(left.Load)
}

// judge starts a process on a healthy volume and compares.
func (w *simWorld) judge(sim *nfssim.Sim) error {
	var verdict error
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		verdict = w.compare(sim)
	}()
	if err := sim.Run(done.Load); err != nil {
		return err
	}
	return verdict
}

func (w *simWorld) compare(sim *nfssim.Sim) error {
	v, err := w.volume(sim.Host("c").FS())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	b, err := Start(ctx, v, w.options())
	if err != nil {
		return fmt.Errorf("last start: %w", err)
	}
	defer func() { _ = b.Stop(ctx) }()
	for !b.Ready() || len(b.View().Removing()) > 0 {
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("not ready (%v), removing %v", b.Ready(), b.View().Removing())
		}
	}
	return w.compareView(b.View(), v)
}

// compareView holds what was acknowledged to clients against a settled broker's view and
// the volume.
func (w *simWorld) compareView(view *projections.Cluster, v *substrate.Volume) error {
	for id, name := range w.living {
		if topic := view.TopicByID(id); topic == nil || topic.Name != name {
			return fmt.Errorf("topic %s, acknowledged with ID %s, is %v", name, id, topic)
		}
		if err := w.compareTopic(view.TopicByID(id)); err != nil {
			return err
		}
	}
	for id := range w.deleted {
		if view.TopicByID(id) != nil {
			return fmt.Errorf("topic %s was deleted and lives", id)
		}
		if there, err := exists(v, topicsDir, id.String()); there || err != nil {
			return fmt.Errorf("files of deleted topic %s: %v, %v", id, there, err)
		}
	}
	for first := range w.blocks {
		if first >= view.NextProducerID() {
			return fmt.Errorf("producer IDs from %d were handed out, and the next is %d", first, view.NextProducerID())
		}
	}
	return nil
}
