package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
)

// TestSweep has brokers on several hosts take a partition from each other while they
// append and read, with crashes, power losses, freezes, lost replies and faults at every
// k-th call. What one of them acknowledged or showed holds for all of them, for good.
func TestSweep(t *testing.T) {
	var total sweepStats
	sweep.Run(t, 400, func(seed int64) error {
		st, err := simulate(t, seed, breaks{}, substrate.Breaks{})
		total.add(st)
		return err
	})
	t.Logf("%+v", total)
	if total.Acked == 0 || total.Opened == 0 || total.Shown == 0 || total.Refused == 0 || total.Adopted == 0 || total.Again == 0 {
		t.Fatalf("the sweep did nothing: %+v", total)
	}
}

// TestSweepCatches takes one rule away at a time: the sweep must fail.
func TestSweepCatches(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	type rules struct {
		breaks
		substrate.Breaks
	}
	for name, b := range map[string]rules{
		"no fdatasync":               {breaks: breaks{noSync: true}},
		"no Check":                   {breaks: breaks{noCheck: true}},
		"no Seal":                    {Breaks: substrate.Breaks{NoSeal: true}},
		"tail adopted where it lies": {breaks: breaks{noTailCopy: true}},
		"acknowledged before a manifest names it":   {breaks: breaks{ackBeforeName: true}},
		"new segment's directory not synced":        {breaks: breaks{noDirSync: true}},
		"acknowledged what came during the sync":    {breaks: breaks{appendOn: true}},
		"manifest's base listed before the sealing": {Breaks: substrate.Breaks{ListBeforeSeal: true}},
	} {
		t.Run(name, func(t *testing.T) {
			sweep.Catches(t, 3000, func(seed int64) error {
				_, err := simulate(t, seed, b.breaks, b.Breaks)
				return err
			})
		})
	}
}

type sweepStats struct {
	Ops, Opened, Acked, Shown, Refused, Adopted, Starts, Unanswered, Again int
	Deleted, Retained, Compacted                                           int
	Ended, Filtered, Modelled                                              int // transactions, aborted records met, models compared
}

func (s *sweepStats) add(o sweepStats) {
	s.Ops += o.Ops
	s.Opened += o.Opened
	s.Acked += o.Acked
	s.Shown += o.Shown
	s.Refused += o.Refused
	s.Adopted += o.Adopted
	s.Starts += o.Starts
	s.Unanswered += o.Unanswered
	s.Again += o.Again
	s.Deleted += o.Deleted
	s.Retained += o.Retained
	s.Compacted += o.Compacted
	s.Ended += o.Ended
	s.Filtered += o.Filtered
	s.Modelled += o.Modelled
}

// oracle knows what anybody may rely on.
type oracle struct {
	mu     sync.Mutex
	value  map[int64]string // of each offset that was acknowledged or shown
	offset map[string]int64 // its inverse
	acked  int64            // end of what was acknowledged
	shown  int64            // the largest high watermark that was shown
	starts map[int32]int64  // where each opened epoch began
	bad    error
	txnOf  map[string]*simTxn // by value
	sweepStats
}

func (o *oracle) violate(format string, a ...any) {
	if o.bad == nil {
		o.bad = fmt.Errorf(format, a...)
	}
}

// observe takes the records of a batch that somebody relies on.
func (o *oracle) observe(who string, base int64, values []string) {
	for i, v := range values {
		off := base + int64(i)
		if old, there := o.value[off]; there && old != v {
			o.violate("%s: offset %d holds %q, but it was %q", who, off, v, old)
		}
		if old, there := o.offset[v]; there && old != off {
			o.violate("%s: %q is at offset %d, but it was at %d", who, v, off, old)
		}
		o.value[off], o.offset[v] = v, off
	}
}

// ack takes an acknowledged append: its place is behind all that was acknowledged
// before it began, and before whatever a later leader began with.
func (o *oracle) ack(who string, epoch int32, before, base int64, values []string) {
	o.Acked++
	o.observe("acknowledged by "+who, base, values)
	end := base + int64(len(values))
	if base < before {
		o.violate("%s was given offset %d, but %d was acknowledged before", who, base, before)
	}
	for e, start := range o.starts {
		if e > epoch && end > start {
			o.violate("%s acknowledged offset %d in epoch %d, but epoch %d began at %d", who, base, epoch, e, start)
		}
	}
	o.acked = max(o.acked, end)
}

type world struct {
	sim     *nfssim.Sim
	rng     *rand.Rand // drawn from only between calls
	o       *oracle
	rules   substrate.Breaks
	cfg     Config
	procs   map[string]*simProcess
	clients []*simClient
	wg      sync.WaitGroup
	ops     int // when it ends
	local   bool
	thaw    map[*nfssim.Host]time.Time // when a frozen host goes on
	room    time.Time                  // when a full volume has room again; zero while it has
	answer  time.Time                  // when a volume that hangs answers again; likewise
	nextID  int
	keys    *keyOracle // where the log is cleaned up
	txns    *txnOracle // where there are transactions
}

type simProcess struct {
	*nfssim.Process
	cancel context.CancelFunc
}

var hostNames = []string{"a", "b", "c"}

func simConfig(seed int64, rng *rand.Rand) nfssim.Config {
	cfg := sweep.Config(seed, rng)
	cfg.Fault = sweep.Faults(seed, []float64{0, 0.002, 0.01}[rng.IntN(3)])
	return cfg
}

func simulate(t *testing.T, seed int64, b breaks, rules substrate.Breaks) (st sweepStats, err error) {
	return simulateWith(t, seed, b, rules, nil)
}

// simulateWith lets a test choose more of what goes on.
func simulateWith(t *testing.T, seed int64, b breaks, rules substrate.Breaks, more func(*world)) (st sweepStats, err error) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		cfg := simConfig(seed, rng)
		passing := cfg.Fault
		var w *world
		cfg.Fault = func(op nfssim.Op) error { return cmp.Or(w.fullFault(op), passing(op)) }
		w = &world{rng: rng, rules: rules, procs: map[string]*simProcess{}, clients: []*simClient{{id: 1}, {id: 2}}, local: cfg.Local,
			thaw: map[*nfssim.Host]time.Time{}, ops: 800 + rng.IntN(1500), sim: nfssim.New(cfg),
			o: &oracle{value: map[int64]string{}, offset: map[string]int64{}, starts: map[int32]int64{}},
			cfg: Config{Log: quiet, breaks: b, SegmentBytes: []int64{200, 600, 1 << 20}[rng.IntN(3)], IndexIntervalBytes: 100,
				RecoveryPointBytes: []int64{1, 400, 1 << 20}[rng.IntN(3)], RecoveryPointIdle: time.Second, HistoryEntries: 8,
				StallAfter: []time.Duration{time.Second, 15 * time.Second, time.Hour}[rng.IntN(3)]}}
		if more != nil {
			more(w)
		}
		v := &substrate.Volume{FS: w.sim.Server(), NewID: sweep.IDs("birth")}
		ok(t, v.Init(""))
		ok(t, BuildTopic(v, "birth", testID, testTopic, 1, time.Now()))
		for i := range hostNames {
			w.start(i)
		}
		k := 25 + rng.IntN(400) // something happens at every k-th call
		for n := k; n < w.ops; n += k {
			w.sim.At(n, w.disturb)
		}
		if rerr := w.sim.Run(w.over); rerr != nil {
			w.o.violate("run: %w", rerr)
		}
		w.sim.Stop()
		for _, p := range w.procs {
			p.cancel()
		}
		w.wg.Wait()
		w.final(t)
		st = w.o.sweepStats
		st.Ops = w.sim.Ops()
		if err = w.o.bad; err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(w.sim.Trace(), "\n"))
		}
	})
	return st, err
}

// start runs a new process on a host.
func (w *world) start(i int) {
	w.nextID++
	name := fmt.Sprintf("%s%d", hostNames[i], w.nextID)
	p := &simProcess{Process: w.sim.Host(hostNames[i]).Process()}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.procs[hostNames[i]] = p
	b := &simBroker{w: w, name: name, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 3)), cfg: w.cfg,
		v: &substrate.Volume{FS: p, NewID: sweep.IDs(name), Breaks: w.rules}}
	if w.rng.IntN(2) == 0 {
		b.v.FS = substrate.NewPool(p, substrate.PoolLimits{})
		b.cfg.Recovery = NewRecoveryBudget(int64(100 + w.rng.IntN(1000)))
	}
	w.o.Starts++
	w.wg.Go(func() { b.run(ctx) })
}

// disturb is what happens at every k-th call.
func (w *world) disturb() {
	i := w.rng.IntN(len(hostNames))
	h := w.sim.Host(hostNames[i])
	switch n := w.rng.IntN(13); {
	case n >= 10:
		w.fail(hostNames[i], n == 10)
	case n < 4: // kill -9, and a restart
		w.procs[hostNames[i]].cancel()
		w.procs[hostNames[i]].Kill()
		w.start(i)
	case n < 6 || n == 6 && w.local:
		h.PowerLoss()
		for j, name := range hostNames {
			if w.local || j == i { // a local disk has one machine
				w.procs[name].cancel()
				w.start(j)
			}
		}
	case n < 8 && !w.local:
		w.sim.ServerPowerLoss()
	default:
		h.Freeze()
		w.thaw[h] = time.Now().Add(time.Duration(w.rng.IntN(60_000)) * time.Millisecond)
	}
}

// fail has the volume run full for all, or hang for one host or for all of them.
func (w *world) fail(host string, full bool) {
	until := time.Now().Add(time.Duration(w.rng.IntN(40_000)) * time.Millisecond)
	if full {
		w.room = until
		return
	}
	all, segments := w.rng.IntN(3) == 0, w.rng.IntN(2) == 0
	w.answer = until
	w.sim.Hang(func(op nfssim.Op) bool {
		return (all || op.Host == host) && (!segments || strings.HasSuffix(op.Name, ".log"))
	})
}

// fullFault is what a volume without room answers: what takes some fails, at once or at
// the sync. It is called as over is, and like it between any two calls.
func (w *world) fullFault(op nfssim.Op) error {
	if w.room.IsZero() {
		return nil
	}
	switch op.Kind {
	case nfssim.OpWrite, nfssim.OpCreate, nfssim.OpMkdir, nfssim.OpDatasync:
		return []error{syscall.ENOSPC, syscall.EDQUOT}[op.N%2]
	case nfssim.OpRename, nfssim.OpClose:
		if op.N%4 == 0 {
			return syscall.ENOSPC
		}
	}
	return nil
}

// over is asked between any two calls.
func (w *world) over() bool {
	if !w.room.IsZero() && !time.Now().Before(w.room) {
		w.room = time.Time{}
	}
	if !w.answer.IsZero() && !time.Now().Before(w.answer) {
		w.answer = time.Time{}
		w.sim.Unhang()
	}
	for _, name := range hostNames {
		h := w.sim.Host(name)
		if t, frozen := w.thaw[h]; frozen && !time.Now().Before(t) {
			h.Thaw()
			delete(w.thaw, h)
		}
	}
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	return w.o.bad != nil || w.sim.Ops() >= w.ops
}

type simBroker struct {
	w     *world
	v     *substrate.Volume
	name  string
	rng   *rand.Rand
	cfg   Config
	leads int
}

// run leads the partition again and again, until its process dies.
func (b *simBroker) run(ctx context.Context) {
	var s *substrate.Session
	closeSession := func() {
		if s != nil {
			_ = s.Close(context.Background())
			s = nil
		}
	}
	defer closeSession()
	for ctx.Err() == nil {
		sleep.For(ctx, time.Duration(b.rng.IntN(3000))*time.Millisecond)
		if s == nil || s.IsFenced() || b.rng.IntN(4) == 0 {
			closeSession()
			var err error
			if s, err = b.v.OpenSession(substrate.Identity{}); err != nil {
				s = nil
				continue
			}
		}
		e, err := metalog.NextEpoch(b.v, ManifestStream(testID, 0))
		if err != nil {
			continue
		}
		e += substrate.Epoch(b.rng.IntN(2)) // gaps, as a controller leaves them
		b.w.o.mu.Lock()
		before := b.w.o.acked // while it opens, another may open above it and go on
		b.w.o.mu.Unlock()
		p, err := Open(ctx, s, testID, testTopic, 0, int32(e), b.cfg)
		switch {
		case errors.Is(err, substrate.ErrStillLeading):
			closeSession()
		case err != nil:
			b.corruption(err)
		default:
			b.lead(ctx, s, p, before)
			b.cfg.After = p
		}
	}
}

// corruption: whatever the faults, nobody may ever meet damage.
func (b *simBroker) corruption(err error) {
	var d *substrate.DamageError
	if errors.As(err, &d) {
		b.w.o.mu.Lock()
		defer b.w.o.mu.Unlock()
		b.w.o.violate("%s: %w", b.name, err)
	}
}

func (b *simBroker) lead(ctx context.Context, s *substrate.Session, p *Partition, before int64) {
	b.leads++
	o := b.w.o
	_, hw, _ := p.Offsets()
	o.mu.Lock()
	o.Opened++
	if p.active != nil {
		o.Adopted++
	}
	o.starts[p.LeaderEpoch()] = hw
	if hw < before {
		o.violate("%s opened epoch %d at %d, but %d was acknowledged", b.name, p.LeaderEpoch(), hw, before)
	}
	o.mu.Unlock()

	var wg sync.WaitGroup
	for i := range 1 + b.rng.IntN(2) {
		rng := rand.New(rand.NewPCG(b.rng.Uint64(), 4))
		wg.Go(func() { b.produce(ctx, p, i, rng) })
	}
	if c := b.w.takeClient(); c != nil {
		rng := rand.New(rand.NewPCG(b.rng.Uint64(), 6))
		wg.Go(func() { b.produceOnce(ctx, p, c, rng) })
	}
	rng := rand.New(rand.NewPCG(b.rng.Uint64(), 5))
	wg.Go(func() { b.consume(ctx, s, p, rng) })
	if b.w.txns != nil {
		b.w.txns.lead(ctx, b, s, p, &wg)
	}
	if b.w.keys != nil {
		rng := rand.New(rand.NewPCG(b.rng.Uint64(), 6))
		wg.Go(func() { b.clean(ctx, p, rng) })
	}
	wg.Wait()
	sleep.For(ctx, time.Millisecond) // an append just made must not race with the end
	end, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if b.rng.IntN(2) == 0 {
		_ = p.Relinquish(end)
	}
	_ = p.Abandon(end)
}

// produce appends a few batches, now and then several before it waits.
func (b *simBroker) produce(ctx context.Context, p *Partition, id int, rng *rand.Rand) {
	type sent struct {
		*Appended
		before int64
		values []string
	}
	var open []sent
	for n := range 1 + rng.IntN(8) {
		// No two at one instant: what races for real does not replay.
		sleep.For(ctx, time.Duration(rng.IntN(300))*time.Millisecond+time.Duration(id+1)*time.Microsecond)
		var vs []string
		for r := range 1 + rng.IntN(3) {
			vs = append(vs, fmt.Sprintf("%s.%d.%d.%d.%d", b.name, b.leads, id, n, r))
		}
		b.w.o.mu.Lock()
		before := b.w.o.acked
		b.w.o.mu.Unlock()
		a, err := p.Append(ctx, b.w.batch(vs))
		if err != nil {
			b.count(err)
			break
		}
		if open = append(open, sent{a, before, vs}); rng.IntN(3) == 0 {
			continue
		}
		for _, x := range open {
			err := x.Wait(ctx)
			b.count(err)
			if err == nil {
				b.w.o.mu.Lock()
				b.w.o.ack(b.name, p.LeaderEpoch(), x.before, x.BaseOffset, x.values)
				b.w.o.mu.Unlock()
			}
		}
		open = nil
		if p.Err() != nil {
			break
		}
	}
}

func (b *simBroker) count(err error) {
	b.w.o.mu.Lock()
	defer b.w.o.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, kerr.NotLeaderForPartition):
		b.w.o.Refused++
	default:
		b.w.o.Unanswered++
	}
}

// consume reads through the leader. What it is shown was committed, leader or not; that
// it is the newest, a Check begun afterwards tells.
func (b *simBroker) consume(ctx context.Context, s *substrate.Session, p *Partition, rng *rand.Rand) {
	o := b.w.o
	for range 1 + rng.IntN(6) {
		sleep.For(ctx, time.Duration(rng.IntN(400))*time.Millisecond+500*time.Nanosecond)
		_, hw, _ := p.Offsets()
		at := max(0, hw-int64(rng.IntN(40)))
		o.mu.Lock()
		before := max(o.shown, o.acked)
		o.mu.Unlock()
		f, err := readOrCut(ctx, p, rng, at, 100+rng.IntN(2000))
		if b.w.keys.tooOld(o, err, at, f) {
			continue
		}
		if err != nil {
			b.corruption(err)
			return
		}
		fresh := s.Check(ctx) == nil
		o.mu.Lock()
		if at < f.HighWatermark && len(f.Records) == 0 {
			o.violate("%s: nothing at %d, high watermark %d", b.name, at, f.HighWatermark)
		}
		for i, x := range batches(o, f.Records) {
			if i == 0 && (x.base() > at && b.w.keys == nil || x.next() <= at) || x.next() > f.HighWatermark {
				o.violate("%s: read at %d gave %d to %d, high watermark %d", b.name, at, x.base(), x.next(), f.HighWatermark)
			}
			o.Shown++
			o.observeBatch("shown by "+b.name, x)
		}
		o.shown = max(o.shown, f.HighWatermark)
		if fresh && f.HighWatermark < before {
			o.violate("%s: high watermark is %d and fresh, but %d was shown before", b.name, f.HighWatermark, before)
		}
		o.mu.Unlock()
	}
}

// Helper and Fatalf let the oracle check records as a test does.
func (o *oracle) Helper()                           {}
func (o *oracle) Fatalf(format string, args ...any) { o.violate(format, args...) }

// final has a fresh owner serve the log with no faults left.
func (w *world) final(t *testing.T) {
	o := w.o
	if o.bad != nil {
		return
	}
	v := &substrate.Volume{FS: w.sim.Server(), NewID: sweep.IDs("final")}
	s, err := v.OpenSession(substrate.Identity{})
	ok(t, err)
	e, err := metalog.NextEpoch(v, ManifestStream(testID, 0))
	ok(t, err)
	p, err := Open(context.Background(), s, testID, testTopic, 0, int32(e), Config{Log: quiet})
	if err != nil {
		o.violate("final open: %w", err)
		return
	}
	_, hw, _ := p.Offsets()
	if hw < max(o.acked, o.shown) {
		o.violate("a fresh leader ends at %d, acknowledged were %d, shown %d", hw, o.acked, o.shown)
	}
	if w.txns != nil {
		w.txns.final(w, p)
		_, hw, _ = p.Offsets()
	}
	var log []string
	if w.keys != nil {
		w.keys.final(o, p) // which looks at the rest
		hw = 0
	}
	for at := int64(0); at < hw && o.bad == nil; {
		f, err := p.Read(context.Background(), at, 1<<20, true)
		if err != nil || len(f.Records) == 0 {
			o.violate("a fresh leader's read at %d of %d: %d bytes, %w", at, hw, len(f.Records), err)
			break
		}
		for _, b := range batches(o, f.Records) {
			if b.base() != at {
				o.violate("a fresh leader has %d where %d should be", b.base(), at)
			}
			at = b.next()
			if b.attrs()&attrControl != 0 {
				continue
			}
			vs := batchValues(o, b)
			o.observe("a fresh leader", b.base(), vs)
			log = append(log, vs...)
		}
	}
	if o.bad == nil && w.keys == nil {
		w.wantOnce(log)
	}
	_ = p.Relinquish(context.Background())
	_ = s.Close(context.Background())
}

// A seed replays: the same calls in the same order.
func TestSweepReplays(t *testing.T) {
	// What goroutines do between two calls races for real, so that on a busy machine a
	// seed may take another turn now and then.
	const seeds, most = 40, 6
	other := 0
	for seed := int64(1); seed <= seeds; seed++ {
		a, err := simulate(t, seed, breaks{}, substrate.Breaks{})
		ok(t, err)
		b, err := simulate(t, seed, breaks{}, substrate.Breaks{})
		ok(t, err)
		a.Unanswered, b.Unanswered = 0, 0 // who had not heard when its process died
		a.Refused, b.Refused = 0, 0
		if a != b {
			other++
			t.Logf("seed %d: %+v, then %+v", seed, a, b)
		}
	}
	if other > most {
		t.Errorf("%d of %d seeds did not replay", other, seeds)
	}
}
