package election

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errSick = errors.New("storage stalls")

// world is a volume and candidates for it, in a bubble of fake time.
type world struct {
	*testing.T
	sim   *nfssim.Sim // or nil, then
	dir   substrate.FS
	nodes []*node
	times [3]time.Duration // lease, deadline, retry; zero for the usual ones
	wg    sync.WaitGroup
}

// node is one process.
type node struct {
	id      string
	host    string
	proc    *nfssim.Process
	lock    rl.Interface
	stop    context.CancelFunc
	ended   chan struct{}
	sick    atomic.Bool
	stuck   chan struct{} // if not nil, Lead returns only when it is closed
	early   bool          // Lead returns at once
	running atomic.Int32  // Leads
	leading atomic.Bool   // as far as its context tells
	terms   atomic.Int32
	twice   atomic.Bool // a Lead was called while another ran
}

// inSim runs f as a test on simulated hosts.
func inSim(t *testing.T, cfg nfssim.Config, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.Pause = -1
		w := &world{T: t, sim: nfssim.New(cfg)}
		defer w.end()
		f(w)
	})
}

// onDisk runs f as a test on a directory of this host.
func onDisk(t *testing.T, f func(w *world)) {
	t.Helper()
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, dir: substrate.NewPool(d, substrate.PoolLimits{})}
		defer w.end()
		f(w)
	})
}

// everywhere runs f on both.
func everywhere(t *testing.T, f func(w *world)) {
	t.Run("nfs", func(t *testing.T) { inSim(t, nfssim.Config{Seed: 1}, f) })
	t.Run("disk", func(t *testing.T) { onDisk(t, f) })
}

func (w *world) end() {
	for _, n := range w.nodes {
		n.stop()
		if n.stuck != nil {
			close(n.stuck)
		}
	}
	if w.sim != nil {
		w.sim.Stop()
	}
	w.wg.Wait()
	for _, n := range w.nodes {
		if n.twice.Load() {
			w.Errorf("%s: Lead was called while another was running", n.id)
		}
	}
}

// node makes a candidate, started by start.
func (w *world) node(host, id string) *node {
	n := &node{id: id, host: host, ended: make(chan struct{})}
	fs := w.dir
	if w.sim != nil {
		n.proc = w.sim.Host(host).Process()
		fs = n.proc
	}
	n.lock = NewVolumeLock(&substrate.Volume{FS: fs}, id)
	w.nodes = append(w.nodes, n)
	return n
}

func (w *world) start(n *node) *node {
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	cfg := Config{Lock: n.lock, Lead: n.lead, LeaseDuration: w.times[0], RenewDeadline: w.times[1], RetryPeriod: w.times[2], Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Healthy: func() error {
		if n.sick.Load() {
			return errSick
		}
		return nil
	}}
	w.wg.Go(func() {
		defer close(n.ended)
		if err := Run(ctx, cfg); err != nil {
			w.Errorf("run %s: %v", n.id, err)
		}
	})
	return n
}

func (n *node) lead(ctx context.Context) {
	n.terms.Add(1)
	if n.running.Add(1) > 1 {
		n.twice.Store(true)
	}
	defer n.running.Add(-1)
	if n.early {
		return
	}
	n.leading.Store(true)
	<-ctx.Done()
	n.leading.Store(false)
	if n.stuck != nil {
		<-n.stuck
	}
}

// trio starts three candidates and returns them with the elected one first.
func (w *world) trio() []*node {
	w.Helper()
	for i := range 3 {
		w.start(w.node(fmt.Sprintf("h%d", i), fmt.Sprint(i)))
	}
	return w.sorted()
}

// sorted waits for one of the nodes to be elected, and returns it before the others.
func (w *world) sorted() []*node {
	w.Helper()
	w.within(10*time.Second, "a first leader", func() bool { return leader(w.nodes...) != nil })
	first := leader(w.nodes...)
	ns := []*node{first}
	for _, n := range w.nodes {
		if n != first {
			ns = append(ns, n)
		}
	}
	return ns
}

func leader(ns ...*node) *node {
	for _, n := range ns {
		if n.leading.Load() {
			return n
		}
	}
	return nil
}

// within waits for ok and returns how long it took; longer than most fails the test.
func (w *world) within(most time.Duration, what string, ok func() bool) time.Duration {
	w.Helper()
	begun := time.Now()
	over := func() bool { return ok() || time.Since(begun) > most }
	w.until(over)
	took := time.Since(begun)
	if !ok() {
		w.Fatalf("not within %v: %s", most, what)
	}
	return took
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.Helper()
	end := time.Now().Add(d)
	w.until(func() bool { return !time.Now().Before(end) })
}

func (w *world) until(ok func() bool) {
	w.Helper()
	if w.sim != nil {
		if err := w.sim.Run(ok); err != nil {
			w.Fatal(err, w.sim.Trace())
		}
		return
	}
	for synctest.Wait(); !ok(); synctest.Wait() {
		time.Sleep(time.Millisecond)
	}
}

// server is the volume as it is.
func (w *world) server() *substrate.Volume {
	if w.sim != nil {
		return &substrate.Volume{FS: w.sim.Server()}
	}
	return &substrate.Volume{FS: w.dir}
}

// kill ends a node as SIGKILL does.
func (w *world) kill(n *node) { n.proc.Kill() }
