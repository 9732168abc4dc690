package metalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
)

// TestSweep runs brokers that take one stream from each other, and readers that
// follow it, on hosts that crash, freeze and lose replies, at every k-th call.
// Every acknowledged and every shown state must lie on one chain, and a fresh
// owner at the end must continue it.
func TestSweep(t *testing.T) {
	var total stats
	sweep.Run(t, 1000, func(seed int64) error {
		st, err := simulate(t, seed, substrate.Breaks{})
		total.add(st)
		return err
	})
	t.Logf("%+v", total)
	if total.Acked == 0 || total.Claims == 0 || total.Shown == 0 || total.Fenced == 0 {
		t.Fatalf("the sweep did nothing: %+v", total)
	}
}

// TestSweepCatches takes one rule away at a time: the sweep must fail.
func TestSweepCatches(t *testing.T) {
	for name, b := range map[string]substrate.Breaks{
		"no Seal":                                 {NoSeal: true},
		"no Check":                                {NoCheck: true},
		"Check before the entry is visible":       {CheckBeforeVisible: true},
		"Check by open instead of rename":         {CheckByOpen: true},
		"base listed before sealing":              {ListBeforeSeal: true},
		"no plug under a stale listing":           {NoPlug: true},
		"claim made in two steps":                 {TwoStepClaim: true},
		"session looked at before the entry":      {SessionBeforeEntry: true},
		"position reused after ambiguous publish": {ReusePosition: true},
		"missing directory fsync":                 {NoDirSync: true},
	} {
		t.Run(name, func(t *testing.T) {
			sweep.Catches(t, 3000, func(seed int64) error {
				_, err := simulate(t, seed, b)
				return err
			})
		})
	}
}

type stats struct{ Ops, Claims, Acked, Shown, Fenced, Crashes, Failed, Unknown int }

func (s *stats) add(o stats) {
	s.Ops += o.Ops
	s.Claims += o.Claims
	s.Acked += o.Acked
	s.Shown += o.Shown
	s.Fenced += o.Fenced
	s.Crashes += o.Crashes
	s.Failed += o.Failed
	s.Unknown += o.Unknown
}

// oracle knows the one history there may be.
type oracle struct {
	mu     sync.Mutex
	chain  journal // the longest state acknowledged or shown
	acked  int     // how much of it was acknowledged
	absent map[string]bool
	bad    error
	stats
}

func (o *oracle) violate(format string, a ...any) {
	if o.bad == nil {
		o.bad = fmt.Errorf(format, a...)
	}
}

// observe takes a state that somebody relies on: it must be a prefix of the chain,
// or continue it.
func (o *oracle) observe(who string, j journal) {
	for i := range min(len(j), len(o.chain)) {
		if j[i] != o.chain[i] {
			o.violate("%s: %v contradicts %v", who, j, o.chain)
			return
		}
	}
	if len(j) > len(o.chain) {
		o.chain = append(journal(nil), j...)
	}
}

type world struct {
	sim    *nfssim.Sim
	rng    *rand.Rand // drawn from only between calls
	o      *oracle
	breaks substrate.Breaks
	read   readFunc
	procs  map[string]*simProcess
	wg     sync.WaitGroup
	ops    int // when it ends
	local  bool
	thaw   map[*nfssim.Host]time.Time // when a frozen host goes on
}

type readFunc func(w *world, ctx context.Context, name string, v *substrate.Volume)

type simProcess struct {
	*nfssim.Process
	name   string
	cancel context.CancelFunc
}

var hostNames = []string{"a", "b", "c"}

func simulate(t *testing.T, seed int64, breaks substrate.Breaks) (stats, error) {
	return simulateWith(t, seed, breaks, (*world).follow)
}

// simulateWith is simulate with another kind of reader on each host.
func simulateWith(t *testing.T, seed int64, breaks substrate.Breaks, read readFunc) (st stats, err error) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		cfg := sweep.Config(seed, rng)
		cfg.StaleIn = func(dir string) bool { return !strings.HasPrefix(dir, substrate.SessionsDir) }
		w := &world{rng: rng, o: &oracle{absent: map[string]bool{}}, breaks: breaks, read: read, procs: map[string]*simProcess{}, local: cfg.Local, thaw: map[*nfssim.Host]time.Time{}, ops: 1000 + rng.IntN(2500)}
		cfg.Fault = sweep.Faults(seed, []float64{0, 0.002, 0.02}[rng.IntN(3)])
		w.sim = nfssim.New(cfg)
		v := &substrate.Volume{FS: w.sim.Server(), NewID: sweep.IDs(fmt.Sprint("birth", seed))}
		if err = v.Init(""); err == nil {
			err = metalog.Ensure(v, stream, &journalSchema, "birth", time.Now())
		}
		if err != nil {
			return
		}
		for i := range hostNames {
			w.start(i)
		}
		k := 25 + rng.IntN(500) // a crash or fault at every k-th call
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
		w.final()
		st = w.o.stats
		st.Ops = w.sim.Ops()
		if err = w.o.bad; err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(w.sim.Trace(), "\n"))
		}
	})
	return st, err
}

// start runs a new process on a host: a broker that writes, and a reader.
func (w *world) start(i int) {
	h := w.sim.Host(hostNames[i])
	w.o.Crashes++
	p := &simProcess{Process: h.Process(), name: fmt.Sprintf("%s%d", hostNames[i], w.o.Crashes)}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	w.procs[hostNames[i]] = p
	b := &broker{w: w, name: p.name, rng: rand.New(rand.NewPCG(w.rng.Uint64(), 3))}
	b.v = &substrate.Volume{FS: p, NewID: sweep.IDs(p.name), Breaks: w.breaks}
	w.wg.Go(func() { b.run(ctx) })
	rv := &substrate.Volume{FS: p, NewID: sweep.IDs(p.name + "r"), Breaks: w.breaks}
	w.wg.Go(func() { w.read(w, ctx, p.name, rv) })
}

// disturb is what happens at every k-th call.
func (w *world) disturb() {
	i := w.rng.IntN(len(hostNames))
	h := w.sim.Host(hostNames[i])
	switch n := w.rng.IntN(10); {
	case n < 4: // kill -9, and a restart
		w.procs[hostNames[i]].cancel()
		w.procs[hostNames[i]].Kill()
		w.start(i)
	case n < 6 || n == 6 && w.local:
		h.PowerLoss()
		if w.local {
			// Whoever was shown what was not durable yet died with the machine.
			w.o.mu.Lock()
			w.o.chain = w.o.chain[:w.o.acked]
			w.o.mu.Unlock()
		}
		for j, name := range hostNames {
			if w.local || j == i { // a local disk has one machine
				w.procs[name].cancel()
				w.start(j)
			}
		}
	case n == 6:
		w.sim.ServerPowerLoss()
	default:
		h.Freeze()
		w.thaw[h] = time.Now().Add(time.Duration(w.rng.IntN(60_000)) * time.Millisecond)
	}
}

// over is asked between any two calls.
func (w *world) over() bool {
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

type broker struct {
	w     *world
	v     *substrate.Volume
	name  string
	rng   *rand.Rand
	leads int
}

// run leads the stream again and again, until its process dies.
func (b *broker) run(ctx context.Context) {
	var s *substrate.Session
	defer func() { closeSession(s) }()
	for ctx.Err() == nil {
		sleep.For(ctx, time.Duration(b.rng.IntN(3000))*time.Millisecond)
		if s == nil || s.IsFenced() || b.rng.IntN(4) == 0 {
			closeSession(s)
			var err error
			if s, err = b.v.OpenSession(substrate.Identity{}); err != nil {
				s = nil
				continue
			}
		}
		e, err := metalog.NextEpoch(b.v, stream)
		if err != nil {
			continue
		}
		e += substrate.Epoch(b.rng.IntN(2)) // gaps, as a controller leaves them
		wr, err := metalog.Claim(ctx, s, stream, e, &journalSchema, metalog.Options{Followed: true, RetentionEntries: 6, BaseFiles: 4})
		switch {
		case errors.Is(err, substrate.ErrStillLeading):
			closeSession(s)
			s = nil
			continue
		case err != nil:
			b.corruption(err)
			continue
		}
		b.w.o.mu.Lock()
		b.w.o.Claims++
		b.w.o.mu.Unlock()
		b.lead(ctx, wr)
	}
}

func closeSession(s *substrate.Session) {
	if s != nil {
		_ = s.Close(context.Background())
	}
}

// corruption: whatever the faults, nobody may ever meet a damaged or baseless stream.
func (b *broker) corruption(err error) {
	var d *substrate.DamageError
	if errors.As(err, &d) {
		b.w.o.mu.Lock()
		defer b.w.o.mu.Unlock()
		b.w.o.violate("%s: %w", b.name, err)
	}
}

func (b *broker) lead(ctx context.Context, wr *metalog.Writer[journal]) {
	publishers := 1 + b.rng.IntN(2)
	var wg sync.WaitGroup
	b.leads++
	for i := range publishers {
		rng := rand.New(rand.NewPCG(b.rng.Uint64(), 4))
		wg.Go(func() {
			for n := range 1 + rng.IntN(6) {
				// No two at one instant: what races for real does not replay.
				sleep.For(ctx, time.Duration(rng.IntN(300))*time.Millisecond+time.Duration(i)*time.Microsecond)
				if !b.publish(ctx, wr, fmt.Sprintf("%s.%d.%d.%d", b.name, b.leads, i, n)) {
					return
				}
			}
		})
	}
	wg.Wait()
	end, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if b.rng.IntN(2) == 0 {
		_ = wr.Close(end)
	} else {
		_ = wr.Abandon(end)
	}
}

func (b *broker) publish(ctx context.Context, wr *metalog.Writer[journal], id string) bool {
	o := b.w.o
	var after journal
	_, err := wr.Publish(ctx, "sweep", func(j journal) ([]metalog.Event, error) {
		ev, err := metalog.NewEvent(added, id)
		after = append(j[:len(j):len(j)], id)
		return []metalog.Event{ev}, err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.Acked++
		o.observe("acknowledged by "+b.name+" in epoch "+fmt.Sprint(wr.Epoch()), after)
		o.acked = max(o.acked, len(after))
	case errors.Is(err, substrate.ErrFenced):
		o.Fenced++
	case errors.Is(err, substrate.ErrUnknown), errors.Is(err, substrate.ErrNotDurable), errors.Is(err, context.Canceled):
		o.Unknown++
	default:
		o.Failed++
		o.absent[id] = true
	}
	return wr.Err() == nil && ctx.Err() == nil
}

func (w *world) follow(ctx context.Context, name string, v *substrate.Volume) {
	r := metalog.NewReader(v, stream, &journalSchema)
	var last substrate.Position
	r.Follow(ctx, 700*time.Millisecond, nil, func(s metalog.Snapshot[journal]) {
		w.o.mu.Lock()
		defer w.o.mu.Unlock()
		w.o.Shown++
		if s.Pos.Less(last) {
			w.o.violate("reader on %s went back from %s to %s", name, last, s.Pos)
		}
		last = s.Pos
		w.o.observe(fmt.Sprintf("shown at %s by the reader on %s", s.Pos, name), s.State)
	}, nil)
}

// final has a fresh owner continue the stream with no faults left.
func (w *world) final() {
	ctx := context.Background()
	v := &substrate.Volume{FS: w.sim.Server(), NewID: sweep.IDs("final")}
	res, err := metalog.Verify(v, stream, &journalSchema)
	if err != nil || res.Faults() > 0 {
		w.o.violate("verify at rest: %v %+v", err, res)
		return
	}
	s, err := v.OpenSession(substrate.Identity{})
	if err != nil {
		w.o.violate("final session: %w", err)
		return
	}
	e, err := metalog.NextEpoch(v, stream)
	if err != nil {
		w.o.violate("final epoch: %w", err)
		return
	}
	wr, err := metalog.Claim(ctx, s, stream, e, &journalSchema, metalog.Options{})
	if err != nil {
		w.o.violate("final claim: %w", err)
		return
	}
	got := wr.Committed().State
	if len(got) < len(w.o.chain) {
		w.o.violate("a fresh owner continues %v, but %v was relied on", got, w.o.chain)
	}
	w.o.observe("a fresh owner", got)
	for _, id := range got {
		if w.o.absent[id] {
			w.o.violate("%s was reported as failed, but it is there", id)
		}
	}
	_ = wr.Abandon(ctx)
	_ = s.Close(ctx)
}
