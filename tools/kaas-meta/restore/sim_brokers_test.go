package restore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
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
	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// TestSweepRunning has two brokers serve records and offsets while the cluster and a group are
// put back to before, by a process that is killed at any of its calls, or is not, and is run
// again then. All that was acknowledged is there, but for what was put back; both brokers show
// what was restored, and serve everything.
func TestSweepRunning(t *testing.T) {
	var total runningStats
	sweep.Run(t, 40, func(seed int64) error {
		st, err := runningSweep(t, seed, false)
		total.killed += st.killed
		total.acked += st.acked
		total.committed += st.committed
		total.at = max(total.at, st.at)
		return err
	})
	t.Logf("%+v", total)
	if total.killed == 0 || total.acked == 0 || total.committed == 0 {
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

type runningStats struct{ killed, acked, committed, at int }

// running is a cluster whose brokers are processes of simulated hosts.
type running struct {
	sim *nfssim.Sim
	rng *rand.Rand
	net *wires
	wg  sync.WaitGroup
	ctx context.Context
	mu  struct {
		sync.Mutex
		leads     bool
		acked     map[string]bool
		committed int64 // the highest that group "others" was told it has committed
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
			if op.Host != restorer || op.Kind == nfssim.OpOpen || op.Kind == nfssim.OpRead || op.Kind == nfssim.OpList || op.Kind == nfssim.OpClose {
				return nil
			}
			return faults(op)
		}
		r := &running{sim: nfssim.New(cfg), rng: rng, net: &wires{brokers: map[int32]*coordinator.Broker{}}}
		ctx, cancel := context.WithCancel(context.Background())
		r.ctx, r.mu.acked = ctx, map[string]bool{}
		err = r.life(seed, noSeal, &st)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(r.sim.Trace(), "\n"))
		}
		r.sim.Stop()
		cancel()
		r.wg.Wait()
		time.Sleep(10 * time.Minute)
		st.acked, st.committed = len(r.mu.acked), int(r.mu.committed)
	})
	return st, err
}

// restorer is the host where restore runs, whose calls fail now and then.
const restorer = "c"

const (
	undone = "undone" // the group that is put back
	others = "others" // one of the same shard
)

func (r *running) life(seed int64, noSeal bool, st *runningStats) error {
	for i := range int32(2) {
		r.wg.Go(func() { r.broker(i + 1) })
	}
	var topic *projections.Topic
	if err := r.do(func(ctx context.Context, b *coordinator.Broker) (err error) {
		if topic, err = b.CreateTopic(ctx, coordinator.TopicSpec{Name: "t", Partitions: 2, Configs: map[string]string{"retention.ms": "1000000"}}, false); err != nil {
			if b.View().Topic("t") == nil {
				return err
			}
			topic = b.View().Topic("t")
		}
		return r.commit(ctx, undone, topic.ID, 10)
	}); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	var req Request
	if err := r.read(func(v *substrate.Volume) error {
		req.Saved = nil
		labels, err := Expand(v, []string{"cluster", "groups"})
		for _, l := range labels {
			s, terr := Take(r.ctx, v, l, substrate.Position{})
			req.Saved, err = append(req.Saved, s), errors.Join(err, terr)
		}
		return err
	}); err != nil {
		return fmt.Errorf("what is to be restored: %w", err)
	}
	if err := r.do(func(ctx context.Context, b *coordinator.Broker) error {
		set := map[string]string{"retention.ms": "2000000"}
		return errors.Join(b.AlterTopicConfigs(ctx, topic.ID, func(*projections.Cluster, map[string]string) (map[string]string, error) { return set, nil }, false),
			r.commit(ctx, undone, topic.ID, 99))
	}); err != nil {
		return fmt.Errorf("what is undone: %w", err)
	}
	clients, quit := context.WithCancel(r.ctx)
	var busy sync.WaitGroup
	busy.Go(func() { r.produce(clients, topic.ID) })
	busy.Go(func() { r.commits(clients, topic.ID) })
	err := r.restores(seed, req, noSeal, st)
	if err == nil {
		// Some more, of clients alone.
		n := r.sim.Ops() + 1000
		err = r.sim.Run(func() bool { return r.sim.Ops() >= n })
	}
	quit()
	if err == nil {
		var over atomic.Bool
		go func() { busy.Wait(); over.Store(true) }()
		err = r.sim.Run(over.Load)
	}
	if err != nil {
		return err
	}
	return r.do(func(ctx context.Context, b *coordinator.Broker) error { return r.settled(ctx, topic) })
}

// restores runs a process that is killed at a call, or none, and then one that is not.
func (r *running) restores(seed int64, req Request, noSeal bool, st *runningStats) error {
	for round := range 2 {
		p := r.sim.Host(restorer).Process()
		v := &substrate.Volume{FS: p, NewID: sweep.IDs(fmt.Sprintf("restore%d", round)), ID: simVolume, Breaks: substrate.Breaks{NoSeal: noSeal}}
		ctx, cancel := context.WithCancel(r.ctx)
		var over atomic.Bool
		var err error
		go func() {
			defer over.Store(true)
			// The group "others" is the clients', and goes on.
			for _, one := range []Request{{Saved: req.Saved[:1]}, {Saved: req.Saved[1:], Groups: []string{undone}}} {
				err = errors.Join(err, retry(ctx, func() error { _, err := Run(ctx, v, one); return err }))
			}
		}()
		began, killAt := r.sim.Ops(), 1<<30
		if round == 0 && r.rng.IntN(4) > 0 {
			killAt = r.rng.IntN(400) // brokers' calls count, too
		}
		if serr := r.sim.Run(func() bool { return over.Load() || r.sim.Ops() >= began+killAt }); serr != nil {
			cancel()
			return serr
		}
		if !over.Load() {
			st.killed++
			st.at = max(st.at, r.sim.Ops()-began)
			p.Kill()
			cancel()
			if serr := r.sim.Run(over.Load); serr != nil {
				return serr
			}
			continue
		}
		cancel()
		if err != nil && round == 1 {
			return fmt.Errorf("restoring failed: %w", err)
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
		SpaceInterval: time.Minute, NewTopicID: func() projections.TopicID { return tRestored }}
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
	var over atomic.Bool
	var err error
	go func() {
		defer over.Store(true)
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); wait(r.ctx, 200*time.Millisecond) {
			if err = r.net.bad(); err != nil {
				return
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
				return
			}
		}
	}()
	if serr := r.sim.Run(over.Load); serr != nil {
		return errors.Join(serr, err)
	}
	return err
}

// read has a process of its own look at the volume.
func (r *running) read(f func(*substrate.Volume) error) error {
	var over atomic.Bool
	var err error
	go func() {
		defer over.Store(true)
		err = retry(r.ctx, func() error { return f(&substrate.Volume{FS: r.sim.Host(restorer).FS(), ID: simVolume}) })
	}()
	return errors.Join(r.sim.Run(over.Load), err)
}

// shard is the only shard of groups, at its owner.
func (r *running) shard() (*groupshard.Shard, error) {
	var errs []error
	for _, b := range r.net.all() {
		s, err := b.GroupShard(undone)
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(append(errs, errors.New("nobody owns the shard"))...)
}

func (r *running) commit(ctx context.Context, group string, topic projections.TopicID, offset int64) error {
	s, err := r.shard()
	if err != nil {
		return err
	}
	return s.Commit(ctx, groupshard.Commit{Group: group, Generation: -1, Topics: []groups.TopicOffsets{{Topic: topic, Partitions: []groups.PartitionOffset{{Offset: offset, LeaderEpoch: -1, Expires: -1}}}}})
}

// commits has group "others" commit ever higher offsets.
func (r *running) commits(ctx context.Context, topic projections.TopicID) {
	for n := int64(1); wait(ctx, 50*time.Millisecond); n++ {
		one, cancel := context.WithTimeout(r.ctx, 20*time.Second)
		if err := r.commit(one, others, topic, n); err == nil {
			r.mu.Lock()
			r.mu.committed = n
			r.mu.Unlock()
		}
		cancel()
	}
}

func (r *running) produce(ctx context.Context, topic projections.TopicID) {
	for n := 0; wait(ctx, 30*time.Millisecond); n++ {
		value := fmt.Sprintf("v%06d", n)
		for _, b := range r.net.all() {
			p, err := b.Partition(topic, int32(n%2))
			if err != nil {
				continue
			}
			one, cancel := context.WithTimeout(r.ctx, 20*time.Second)
			a, err := p.Append(one, batchOf(value))
			if err == nil {
				err = a.Wait(one)
			}
			cancel()
			if err == nil {
				r.mu.Lock()
				r.mu.acked[value] = true
				r.mu.Unlock()
			}
		}
	}
}

// settled is nil when both brokers show what was restored, and everything is served and there.
func (r *running) settled(ctx context.Context, topic *projections.Topic) error {
	for _, b := range r.net.all() {
		t := b.View().TopicByID(topic.ID)
		if t == nil || t.Configs["retention.ms"] != "1000000" {
			return fmt.Errorf("a broker shows topic t as %+v", t)
		}
		if !b.Ready() {
			return errors.New("a broker does not serve all that it leads")
		}
	}
	s, err := r.shard()
	if err != nil {
		return err
	}
	for group, least := range map[string]int64{undone: 10, others: r.mu.committed} {
		g, err := s.Fetch(ctx, group, nil, -1)
		if err != nil {
			return err
		}
		if g == nil && least == 0 {
			continue
		}
		if g == nil {
			return fmt.Errorf("group %s is gone", group)
		}
		at, _ := g.At(topic.ID, 0)
		if at.Offset < least || group == undone && at.Offset != least {
			return fmt.Errorf("group %s is at %d, want %d", group, at.Offset, least)
		}
	}
	have := map[string]int{}
	for i := range int32(2) {
		if err := r.readAll(ctx, topic.ID, i, have); err != nil {
			return err
		}
	}
	for v := range r.mu.acked {
		if have[v] == 0 {
			return fmt.Errorf("record %s, acknowledged, is gone", v)
		}
	}
	return nil
}

func (r *running) readAll(ctx context.Context, topic projections.TopicID, index int32, have map[string]int) error {
	for _, b := range r.net.all() {
		p, err := b.Partition(topic, index)
		if err != nil {
			continue
		}
		_, end, _ := p.Offsets()
		for at := int64(0); at < end; {
			f, err := p.Read(ctx, at, 1<<20, true)
			if err != nil {
				return err
			}
			for rest := f.Records; len(rest) > 0; {
				n := 12 + int(binary.BigEndian.Uint32(rest[8:]))
				at = int64(binary.BigEndian.Uint64(rest)) + int64(binary.BigEndian.Uint32(rest[23:])) + 1
				have[string(rest[n-8:n-1])]++
				rest = rest[n:]
			}
		}
		return nil
	}
	return fmt.Errorf("partition %d is not served", index)
}

// batchOf is a batch of one record with a value of seven bytes.
func batchOf(value string) []byte {
	b := make([]byte, 61)
	b[16] = 2
	for _, at := range []int{43, 47, 49, 53} { // no producer
		binary.BigEndian.PutUint32(b[at:], 0xffffffff)
	}
	binary.BigEndian.PutUint32(b[57:], 1)
	record := append([]byte{0, 0, 0, 1, byte(2 * len(value))}, value...)
	record = append(record, 0)
	b = append(append(b, byte(2*len(record))), record...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[17:], substrate.CRC32C(b[21:]))
	return b
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
