package txnshard

import (
	"context"
	"errors"
	"fmt"
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

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// TestSweep has clients, some of them zombies of each other, make transactions while the shard
// changes hands, by death, by handover and by being taken from an owner that knows nothing of
// it; the volume loses replies and fails; markers are lost, late and answered in part; leaders
// move and are nobody; there is no controller for a while. In the end everything that was
// written must be decided as its client was told, everywhere alike.
func TestSweep(t *testing.T) {
	first, n := int64(1), int64(15)
	if s := os.Getenv("KAAS_SIM_SEED"); s != "" {
		first, _ = strconv.ParseInt(s, 10, 64)
	}
	if s := os.Getenv("KAAS_SIM_SEEDS"); s != "" {
		n, _ = strconv.ParseInt(s, 10, 64)
	} else if testing.Short() {
		n = 10
	}
	var total worldStats
	for seed := first; seed < first+n; seed++ {
		st, err := simulate(t, seed)
		if err != nil {
			t.Fatalf("seed %d (again: KAAS_SIM_SEED=%d KAAS_SIM_SEEDS=1): %v", seed, seed, err)
		}
		total.committed += st.committed
		total.aborted += st.aborted
		total.unknown += st.unknown
		total.markers += st.markers
		total.refused += st.refused
		total.late += st.late
		total.owners += st.owners
		total.fenced += st.fenced
	}
	t.Logf("%+v", total)
	if n >= 10 && (total.committed == 0 || total.aborted == 0 || total.unknown == 0 || total.refused == 0 || total.late == 0 || total.fenced == 0) {
		t.Errorf("the sweep did not do everything: %+v", total)
	}
}

func simulate(t *testing.T, seed int64) (st worldStats, err error) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		cfg := nfssim.Config{Seed: seed, Delegations: w.rng.IntN(2) == 0, TraceLen: 40,
			LostReply: []float64{0, 0.01, 0.05}[w.rng.IntN(3)], Late: []float64{0, 0.5}[w.rng.IntN(2)]}
		faults := []float64{0, 0.001, 0.01}[w.rng.IntN(3)]
		frng := rand.New(rand.NewPCG(uint64(seed), 2))
		cfg.Fault = func(nfssim.Op) error {
			if w.healthy.Load() || frng.Float64() >= faults {
				return nil
			}
			if frng.IntN(2) == 0 {
				return nfssim.Applied(syscall.EIO)
			}
			return syscall.EIO
		}
		sim := nfssim.New(cfg)
		defer sim.Stop()
		if err = w.run(sim); err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(sim.Trace(), "\n"))
		}
		st = w.stats
	})
	return st, err
}

func (w *world) run(sim *nfssim.Sim) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var clients sync.WaitGroup
	for i := range 4 {
		c := &client{w: w, id: []string{"a", "b", "c", "a"}[i], version: []int8{2, 2, 0, 2}[i], rng: rand.New(rand.NewPCG(w.seed, uint64(100+i)))}
		clients.Go(func() { c.live(ctx) })
	}
	clients.Go(func() { w.shake(ctx) })
	owners, err := w.generations(sim)
	if err != nil {
		return err
	}
	stop()
	if err := settled(sim, &clients); err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	owners.cancel()
	if err := settled(sim, &owners.wg); err != nil {
		return fmt.Errorf("owners: %w", err)
	}
	w.heal()
	if err := w.complete(sim); err != nil {
		return err
	}
	return w.judge()
}

// settled runs the simulation until all of a group are gone.
func settled(sim *nfssim.Sim, wg *sync.WaitGroup) error {
	var done atomic.Bool
	go func() { wg.Wait(); done.Store(true) }()
	return sim.Run(done.Load)
}

type owners struct {
	wg      sync.WaitGroup
	cancels []context.CancelFunc
}

func (o *owners) cancel() {
	for _, c := range o.cancels {
		c()
	}
}

// generations has one owner after the other take the shard, from one that is dead, has let go
// or is still at it.
func (w *world) generations(sim *nfssim.Sim) (*owners, error) {
	o := &owners{}
	for range 2 + w.rng.IntN(4) {
		p := sim.Host([]string{"a", "b"}[w.rng.IntN(2)]).Process()
		ctx, cancel := context.WithCancel(context.Background())
		o.cancels = append(o.cancels, cancel)
		graceful := w.rng.IntN(2) == 0
		o.wg.Go(func() { w.own(ctx, p, graceful) })
		end := sim.Ops() + 100 + w.rng.IntN(600)
		until := time.Now().Add(5 * time.Minute)
		if err := sim.Run(func() bool { return sim.Ops() >= end || time.Now().After(until) }); err != nil {
			return o, err
		}
		switch w.rng.IntN(3) {
		case 0:
			p.Kill()
			cancel()
		case 1:
			cancel()
		}
	}
	return o, nil
}

// open opens the shard under the next epoch, whatever it takes.
func (w *world) open(ctx context.Context, fs substrate.FS) (*Shard, error) {
	for {
		sh, err := w.tryOpen(ctx, fs)
		if err == nil || !sleep.For(ctx, time.Second) {
			return sh, err
		}
	}
}

func (w *world) tryOpen(ctx context.Context, fs substrate.FS) (*Shard, error) {
	v, err := w.volume(fs)
	if err != nil {
		return nil, err
	}
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData})
	if err != nil {
		return nil, err
	}
	sh, err := Open(ctx, s, txns.Stream(v.MetaDir(), 0), w.epochs.Add(1), w.options(s))
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	w.mu.Lock()
	w.shards = append(w.shards, sh)
	w.stats.owners++
	w.mu.Unlock()
	w.current.Store(sh)
	return sh, nil
}

// own is the life of one owner.
func (w *world) own(ctx context.Context, fs substrate.FS, graceful bool) {
	sh, err := w.open(ctx, fs)
	if err != nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-sh.Done():
	}
	w.mu.Lock()
	if errors.Is(sh.Err(), substrate.ErrFenced) {
		w.stats.fenced++
	}
	w.mu.Unlock()
	end, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if graceful && sh.Err() == nil {
		_ = sh.Relinquish(end)
	} else {
		_ = sh.Abandon(end)
	}
}

// shake moves leaders, some of them away for a while.
func (w *world) shake(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.seed, 50))
	for epoch := int32(2); sleep.For(ctx, time.Duration(r.IntN(2000))*time.Millisecond); epoch++ {
		leader := r.Int32N(4) - 1
		switch n := r.IntN(8); {
		case n == 0:
			w.tell(&projections.ShardOwnerChanged{Kind: projections.ShardGroups, Shard: r.Int32N(2), Owner: leader, Epoch: epoch})
		default:
			w.tell(&projections.PartitionLeaderChanged{TopicID: topicID(1 + r.IntN(2)), Partition: r.Int32N(3), Leader: leader, Epoch: epoch})
		}
	}
}

// heal ends all faults, and gives everything a leader.
func (w *world) heal() {
	w.healthy.Store(true)
	var fs []projections.Fact
	for _, t := range w.view.Load().Topics() {
		for i := range t.Partitions {
			fs = append(fs, &projections.PartitionLeaderChanged{TopicID: t.ID, Partition: int32(i), Leader: 1, Epoch: 1 << 20})
		}
	}
	for i := range w.view.Load().Shards(projections.ShardGroups) {
		fs = append(fs, &projections.ShardOwnerChanged{Kind: projections.ShardGroups, Shard: int32(i), Owner: 2, Epoch: 1 << 20})
	}
	w.tell(fs...)
}

// complete has a last owner end all that is open.
func (w *world) complete(sim *nfssim.Sim) error {
	var err error
	var done atomic.Bool
	go func() {
		defer done.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		var sh *Shard
		if sh, err = w.open(ctx, sim.Host("c").FS()); err != nil {
			return
		}
		err = quiet(ctx, sh)
		err = errors.Join(err, sh.Abandon(ctx))
		// Markers that nobody waits for any more come late.
		sleep.For(ctx, time.Minute)
	}()
	if rerr := sim.Run(done.Load); rerr != nil {
		return rerr
	}
	return err
}

// quiet waits until no transaction is open or ending.
func quiet(ctx context.Context, sh *Shard) error {
	for {
		open := 0
		for t := range sh.w.Committed().State.Txns() {
			if t.Open() {
				open++
			}
		}
		if open == 0 {
			return nil
		}
		if !sleep.For(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%d transactions do not end", open)
		}
	}
}
