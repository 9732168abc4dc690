package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/partition"
)

// TestSweepCluster has three hosts run brokers that are killed, stopped, paused, silenced
// and doubled, with two controllers at once now and then, on a volume that loses replies,
// hangs and fails, while topics are made, changed and deleted and records go to all
// partitions. What was acknowledged or shown holds for good, and three fresh brokers at
// the end serve it all, evenly.
func TestSweepCluster(t *testing.T) {
	var total clusterStats
	sweep.Run(t, 100, func(seed int64) error {
		st, err := simulateCluster(t, seed, substrate.Breaks{}, breaks{})
		total.add(st)
		return err
	})
	t.Logf("%+v", total)
	if total.acked == 0 || total.shown == 0 || total.read == 0 || total.created == 0 || total.deleted == 0 || total.altered == 0 ||
		total.grown == 0 || total.fenced == 0 || total.terms <= total.seeds || total.moved == 0 || total.twice == 0 || total.cut == 0 {
		t.Errorf("the sweep did nothing: %+v", total)
	}
}

// TestSweepCatchesCluster takes one rule away at a time: the sweep must fail.
func TestSweepCatchesCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for name, b := range map[string]struct {
		rules substrate.Breaks
		lax   breaks
	}{
		"no Check":                           {rules: substrate.Breaks{NoCheck: true}},
		"no Seal":                            {rules: substrate.Breaks{NoSeal: true}},
		"no plug":                            {rules: substrate.Breaks{NoPlug: true}},
		"handover that waits for no closing": {lax: breaks{noClosing: true}},
		"a fence that leaves the session unsealed": {lax: breaks{noFenceSeal: true}},
	} {
		t.Run(name, func(t *testing.T) {
			sweep.Catches(t, 100, func(seed int64) error {
				_, err := simulateCluster(t, seed, b.rules, b.lax)
				return err
			})
		})
	}
}

type clusterStats struct {
	simStats
	seeds, acked, shown, read, cut, moved, terms, twice int
}

func (s *clusterStats) add(o clusterStats) {
	for _, f := range []struct {
		to   *int
		from int
	}{{&s.created, o.created}, {&s.deleted, o.deleted}, {&s.blocks, o.blocks}, {&s.starts, o.starts}, {&s.fenced, o.fenced},
		{&s.altered, o.altered}, {&s.grown, o.grown}, {&s.seeds, 1}, {&s.acked, o.acked}, {&s.shown, o.shown}, {&s.read, o.read},
		{&s.cut, o.cut}, {&s.moved, o.moved}, {&s.terms, o.terms}, {&s.twice, o.twice}} {
		*f.to += f.from
	}
}

// clusterSim is the hosts, the processes on them, and what their clients saw.
type clusterSim struct {
	*simWorld
	st    clusterStats
	local bool
	o     *clusterOracle
	sim   *nfssim.Sim
	rng   *rand.Rand // the driver's, drawn from only while all else is blocked
	rules substrate.Breaks
	lax   breaks
	opt   Options // of every broker
	net   *simNetwork
	vote  *simElection
	procs []*simProc
	hangs map[string]func(nfssim.Op) bool
	calm  atomic.Bool // no more faults
	wg    sync.WaitGroup
}

func simulateCluster(t *testing.T, seed int64, rules substrate.Breaks, lax breaks) (st clusterStats, err error) {
	synctest.Test(t, func(t *testing.T) {
		w := newClusterSim(seed, rules, lax)
		ctx, cancel := context.WithCancel(context.Background())
		go w.vote.referee(ctx)
		for _, step := range []func() error{w.faults, w.leaveAll, w.settle, w.fenceOne, w.leaveAll} {
			if err = step(); err == nil {
				w.note(func() { err = w.bad })
			}
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, strings.Join(w.sim.Trace(), "\n")) // what is wrong comes first
				break
			}
		}
		w.sim.Stop()
		cancel()
		for _, p := range w.procs {
			p.cancel()
		}
		w.wg.Wait()
		time.Sleep(10 * time.Minute) // for what a Stop has left behind
		w.note(func() { st, st.simStats = w.st, w.simStats })
	})
	return st, err
}

func newClusterSim(seed int64, rules substrate.Breaks, lax breaks) *clusterSim {
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	cfg := sweep.Config(seed, rng)
	w := &clusterSim{simWorld: newSimWorld(), o: newClusterOracle(), rng: rng, rules: rules, lax: lax, local: cfg.Local, hangs: map[string]func(nfssim.Op) bool{}}
	cfg.Pause = -1                        // pauses are the driver's, so that they end
	cfg.StaleIn = func(dir string) bool { // a look at a stream, never at a session
		return !w.calm.Load() && (strings.HasPrefix(dir, metaDir) || strings.Contains(dir, "/"+metaDir))
	}
	passing, lost := sweep.Faults(seed, []float64{0, 0.001, 0.005}[rng.IntN(3)]), lostReplies(seed, cfg.LostReply)
	cfg.LostReply = 0 // the driver's, too
	cfg.Fault = func(op nfssim.Op) error {
		if w.calm.Load() {
			return nil
		}
		return cmp.Or(passing(op), lost(op))
	}
	w.sim = nfssim.New(cfg)
	w.net = newSimNetwork(seed)
	w.vote = newSimElection(w, seed)
	w.opt = w.options()
	w.opt.HeartbeatInterval, w.opt.SessionTimeout, w.opt.CheckInterval = 2*time.Second, 9*time.Second, 2*time.Second
	w.opt.FollowInterval, w.opt.SpaceInterval, w.opt.Ballast = time.Second, time.Minute, 0
	w.opt.StallAfter = []time.Duration{10 * time.Second, time.Minute}[rng.IntN(2)]
	w.opt.breaks = lax
	segment, point := []int64{300, 1 << 20}[rng.IntN(2)], []int64{1, 400, 1 << 20}[rng.IntN(3)]
	w.opt.PartitionConfig = partitionsOf(partition.Config{SegmentBytes: segment, RecoveryPointBytes: point, HistoryEntries: 8})
	return w
}

// lostReplies has operations on names report what a client says whose first answer was lost.
func lostReplies(seed int64, rate float64) func(nfssim.Op) error {
	rng := rand.New(rand.NewPCG(uint64(seed), 6))
	return func(op nfssim.Op) error {
		if op.Kind < nfssim.OpCreate || op.Kind > nfssim.OpRemove || rng.Float64() >= rate {
			return nil
		}
		e := map[nfssim.Kind]error{nfssim.OpCreate: syscall.EEXIST, nfssim.OpMkdir: syscall.EEXIST, nfssim.OpRename: syscall.ENOENT, nfssim.OpRemove: syscall.EIO}[op.Kind]
		// Of other renames this would hide what was wrong with the first.
		unique := strings.Contains(op.Name, "~new~") || strings.HasPrefix(op.Name, substrate.SessionsDir)
		if op.Kind == nfssim.OpRename && !unique || rng.IntN(2) == 0 {
			e = syscall.EIO
		}
		return nfssim.Applied(e)
	}
}

// faults is the part in which things happen.
func (w *clusterSim) faults() error {
	for range 8 + w.rng.IntN(8) {
		w.startMissing(2)
		if err := w.run(1500, time.Duration(float64(4*time.Second)*w.rng.ExpFloat64())); err != nil {
			return err
		}
		w.disturb()
	}
	w.calm.Store(true)
	for name := range w.hangs {
		w.unhang(name)
	}
	for i, h := range hostNames {
		w.thaw(h)
		w.net.silence(int32(i+1), false)
	}
	return nil
}

// later ends a fault, unless all of them have been ended.
func (w *clusterSim) later(d time.Duration, end func()) {
	time.AfterFunc(d, func() {
		if !w.calm.Load() {
			end()
		}
	})
}

var hostNames = []string{"a", "b", "c"}

// run lets so many calls go by, or so much time.
func (w *clusterSim) run(calls int, most time.Duration) error {
	end, began := w.sim.Ops()+calls, time.Now()
	return w.sim.Run(func() bool { return w.sim.Ops() >= end || time.Since(began) >= most })
}

// startMissing starts processes for the node IDs without one, each with a chance of
// most-1 in most.
func (w *clusterSim) startMissing(most int) {
	for i, h := range hostNames {
		if len(w.alive(int32(i+1))) == 0 && w.rng.IntN(most) > 0 || len(w.procs) == 0 {
			w.start(int32(i+1), h)
		}
	}
}

// alive are the processes that were not told to end, of a node ID, or of all with 0.
func (w *clusterSim) alive(id int32) (out []*simProc) {
	for _, p := range w.procs {
		if (id == 0 || p.id == id) && p.ctx.Err() == nil && !p.over.Load() {
			out = append(out, p)
		}
	}
	return out
}

// disturb is one thing that happens.
func (w *clusterSim) disturb() {
	host := hostNames[w.rng.IntN(len(hostNames))]
	while := time.Duration(float64(time.Second) * (0.2 + 3*w.rng.ExpFloat64()*w.rng.ExpFloat64()))
	n := w.rng.IntN(14)
	if n <= 5 {
		if ps := w.alive(0); len(ps) > 0 {
			w.disturbProcess(ps[w.rng.IntN(len(ps))], n)
		}
		return
	}
	switch n {
	case 6:
		w.crash(host)
	case 7, 8:
		w.freeze(host)
		w.later(while, func() { w.thaw(host) })
	case 9:
		for _, h := range hostNames { // the server is away
			w.freezeVolume(h)
			w.later(while, func() { w.thaw(h) })
		}
	case 10:
		w.vote.another()
	case 11:
		dir := []string{"topics/", "meta/", "sessions/", ""}[w.rng.IntN(4)]
		w.hang(host, func(op nfssim.Op) bool { return op.Host == host && strings.HasPrefix(op.Name, dir) })
		w.later(while, func() { w.unhang(host) })
	case 12:
		w.sim.ServerPowerLoss()
		if w.local {
			w.darken("")
		}
	case 13:
		w.st.twice++
		w.start(1+w.rng.Int32N(3), host)
	}
}

func (w *clusterSim) disturbProcess(p *simProc, n int) {
	switch n {
	case 0, 1:
		p.kill()
	case 2, 3:
		p.retire.Store(n == 2)
		p.cancel()
	default:
		w.net.silence(p.id, true)
		w.later(time.Duration(1+w.rng.IntN(25))*time.Second, func() { w.net.silence(p.id, false) })
	}
}
