package rebuild

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

// tool is either of the two.
type tool struct {
	run   func(context.Context, *substrate.Volume, Options) (*Report, error)
	harm  func(*testing.T, *substrate.Volume) // what happened to the volume before it
	after func(*testing.T, *substrate.Volume, before)
	// asItWas checks that the volume is what it was, and can be used.
	asItWas func(*testing.T, *substrate.Volume, before)
}

var tools = map[string]tool{
	"rolled back": {run: RolledBack, harm: func(*testing.T, *substrate.Volume) {},
		after:   func(t *testing.T, v *substrate.Volume, was before) { rolledBack(t, v, was) },
		asItWas: asItWas},
	"rebuild": {run: Rebuild, harm: func(t *testing.T, v *substrate.Volume) { ok(t, v.RemoveTree("meta")) },
		after:   func(t *testing.T, v *substrate.Volume, _ before) { rebuilt(t, v) },
		asItWas: func(*testing.T, *substrate.Volume, before) {}},
}

// asItWas checks that brokers find the volume as it was: the streams say the same, and
// their next owners claim them, above whatever the tool has claimed.
func asItWas(t *testing.T, v *substrate.Volume, was before) {
	t.Helper()
	cluster, gs, ts := v.MetaDir()+"/cluster", groups.Stream(v.MetaDir(), groupShard), txns.Stream(v.MetaDir(), txnShard)
	if !state(t, v, cluster, projections.ClusterSchema()).Equal(was.cluster) {
		t.Fatal("the cluster is another")
	}
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 2})
	ok(t, err)
	defer s.Close(bg)
	if got := owned(t, s, gs, groups.Schema()); !same(t, got, was.groups, groups.Schema()) {
		t.Fatal("the groups are others")
	}
	if got := owned(t, s, ts, txns.Schema()); !got.Equal(was.txns) {
		t.Fatal("the transactions are others")
	}
	for i := range int32(2) {
		next, err := metalog.NextEpoch(v, partition.ManifestStream(ordersID, i))
		ok(t, err)
		p := lead(t, s, i, int32(next))
		if _, hw, _ := p.Offsets(); hw < records {
			t.Fatalf("partition %d ends at %d", i, hw)
		}
		ok(t, p.Abandon(bg))
	}
}

// owned claims a stream as its next owner.
func owned[S any](t *testing.T, s *substrate.Session, stream string, sc *metalog.Schema[S]) S {
	t.Helper()
	next, err := metalog.NextEpoch(s.Volume(), stream)
	ok(t, err)
	w, err := metalog.Claim(bg, s, stream, next, sc, metalog.Options{Now: time.Now})
	ok(t, err)
	ok(t, w.Abandon(bg))
	return w.Committed().State
}

// TestCrash ends the tool at every call that it makes, by a kill or with its host's power.
// The volume is as it was or restored, and in either case the tool can be run on it again.
func TestCrash(t *testing.T) {
	for name, tl := range tools {
		for _, local := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/local=%v", name, local), func(t *testing.T) {
				step := 1
				if testing.Short() {
					step = 7
				}
				old := 0
				for k := 1; ; k += step {
					done, wasOld := crash(t, tl, k, local)
					if done {
						t.Logf("%d calls; a crash at the first %d leaves the volume as it was", k, old)
						break
					}
					if wasOld {
						old = k
					}
				}
				if old == 0 {
					t.Error("no crash left the volume as it was")
				}
			})
		}
	}
}

func crash(t *testing.T, tl tool, k int, local bool) (done, old bool) {
	synctest.Test(t, func(t *testing.T) {
		sim := nfssim.New(nfssim.Config{Seed: int64(k), Local: local, Late: 0.5, Pause: -1})
		defer sim.Stop()
		v, was := populate(t, sim.Server())
		tl.harm(t, v)
		host := sim.Host("a")
		proc := host.Process()
		ctx, cancel := context.WithCancel(bg)
		var over bool
		var err error
		sim.At(k, func() {
			cancel()
			if local {
				host.PowerLoss()
			} else {
				proc.Kill()
			}
		})
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			tool := &substrate.Volume{FS: proc, NewID: sweep.IDs("tool"), ID: v.ID}
			_, err = tl.run(ctx, tool, opts())
			over = true
		}()
		if rerr := sim.Run(func() bool { return over }); rerr != nil {
			t.Fatalf("crash at call %d: %v", k, rerr)
		}
		<-finished
		done = err == nil && ctx.Err() == nil
		cancel()
		// What was on its way reaches the server now, or never.
		for range 50 {
			if rerr := sim.Run(func() bool { return true }); rerr != nil {
				t.Fatal(rerr)
			}
		}
		now := reopen(t, sim.Server())
		if old = now.ID == "old"; old && done {
			t.Fatalf("crash at call %d: the volume is %s, and the tool said %v", k, now.ID, err)
		}
		if !old {
			tl.after(t, now, was)
			return
		}
		tl.asItWas(t, now, was)
		again := opts()
		again.NewID = sweep.IDs("second")
		_, err = tl.run(bg, now, again)
		if err != nil {
			t.Fatalf("crash at call %d: a second run: %v", k, err)
		}
		tl.after(t, reopen(t, sim.Server()), was)
		leftovers(t, sim.Server())
	})
	return done, old
}

// leftovers looks for what a run had begun to build.
func leftovers(t *testing.T, fs substrate.FS) {
	t.Helper()
	es, err := fs.List("meta")
	ok(t, err)
	for _, e := range es {
		if strings.HasPrefix(e.Name, "~") {
			t.Errorf("meta/%s is left", e.Name)
		}
	}
}

// zombies are brokers of the old volume that go on while the tool runs: one leads a
// partition, one owns a shard of groups. Whenever they are fenced they open another
// session, if the volume is still theirs, and claim above whoever has claimed.
type zombies struct {
	acked  []string // records that were acknowledged
	offset int64    // that was acknowledged last
}

// broker runs act under one session after another, until the volume has another ID.
func (z *zombies) broker(ctx context.Context, v *substrate.Volume, early bool, rest func() time.Duration, act func(*substrate.Session) error) {
	same := func() bool {
		now, err := substrate.ReadVolume(v.FS)
		return err == nil && now.ID == v.ID
	}
	for ctx.Err() == nil {
		if !same() {
			return
		}
		s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData})
		if err != nil {
			sleep.For(ctx, time.Millisecond)
			continue
		}
		if early || same() {
			_ = act(s)
		}
		_ = s.Close(ctx)
		sleep.For(ctx, rest())
	}
}

func (z *zombies) commitOffsets(ctx context.Context) func(*substrate.Session) error {
	return func(s *substrate.Session) error {
		stream := groups.Stream(s.Volume().MetaDir(), groupShard)
		next, err := metalog.NextEpoch(s.Volume(), stream)
		if err != nil {
			return err
		}
		w, err := metalog.Claim(ctx, s, stream, next, groups.Schema(), metalog.Options{Now: time.Now})
		if err != nil {
			return err
		}
		defer w.Abandon(ctx)
		for n := z.offset + 1; ctx.Err() == nil; n++ {
			evs, err := groups.NewEvents(commitOf("g", n))
			if err == nil {
				_, err = w.Publish(ctx, "commit", func(*groups.Shard) ([]metalog.Event, error) { return evs, nil })
			}
			if err != nil {
				return err
			}
			z.offset = n
		}
		return nil
	}
}

func (z *zombies) produce(ctx context.Context) func(*substrate.Session) error {
	n := 0
	return func(s *substrate.Session) error {
		next, err := metalog.NextEpoch(s.Volume(), partition.ManifestStream(ordersID, 1))
		if err != nil {
			return err
		}
		p, err := partition.Open(ctx, s, ordersID, "orders", 1, int32(next), config())
		if err != nil {
			return err
		}
		defer p.Abandon(ctx)
		for ctx.Err() == nil {
			n++
			value := fmt.Sprintf("zombie %06d.", n)
			a, err := p.Append(ctx, batch(-1, -1, -1, value))
			if err == nil {
				err = a.Wait(ctx)
			}
			if err != nil {
				return err
			}
			z.acked = append(z.acked, value)
		}
		return nil
	}
}

// TestZombies has brokers of the old volume go on. What they acknowledge is in the volume
// afterwards, whatever the tool said, unless it said that this may not be so.
func TestZombies(t *testing.T) {
	said := map[string]int{}
	sweep.Run(t, 120, func(seed int64) error {
		what, err := haunted(t, seed, breaks{})
		said[what]++
		return err
	})
	t.Logf("%v", said)
	if said["done"] == 0 || said["runs"] == 0 {
		t.Error("the sweep did nothing")
	}
}

// TestZombiesAreFoundOut takes one rule away at a time.
func TestZombiesAreFoundOut(t *testing.T) {
	for name, b := range map[string]breaks{
		"our session is not looked at after the rename":  {noLastCheck: true},
		"sessions are not sealed again":                  {noSealAgain: true},
		"a session is opened after the look at the ID":   {early: true},
		"our session is not looked at before the rename": {noFirstCheck: true, noLastCheck: true},
	} {
		t.Run(name, func(t *testing.T) {
			sweep.Catches(t, 2000, func(seed int64) error {
				_, err := haunted(t, seed, b)
				return err
			})
		})
	}
}

func haunted(t *testing.T, seed int64, b breaks) (said string, err error) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(seed), 5))
		cfg := sweep.Config(seed, rng)
		cfg.Local = false
		cfg.StaleIn = func(dir string) bool { return strings.HasPrefix(dir, "topics/") || strings.Contains(dir, "/groups") }
		sim := nfssim.New(cfg)
		defer sim.Stop()
		v, _ := populate(t, sim.Server())
		ctx, cancel := context.WithCancel(bg)
		z := &zombies{offset: 42}
		var running atomic.Int32
		running.Store(3)
		end := make(chan struct{}, 3)
		volume := func(name string) *substrate.Volume {
			return &substrate.Volume{FS: sim.Host(name).Process(), NewID: sweep.IDs(name), ID: v.ID}
		}
		slow := []int{5, 500, 5000}[rng.IntN(3)]
		rest := func(seed uint64) func() time.Duration {
			rng := rand.New(rand.NewPCG(seed, 6))
			return func() time.Duration { return time.Duration(rng.IntN(slow)) * time.Millisecond }
		}
		go func() {
			z.broker(ctx, volume("b"), b.early, rest(1), z.commitOffsets(ctx))
			running.Add(-1)
			end <- struct{}{}
		}()
		go func() {
			z.broker(ctx, volume("c"), b.early, rest(2), z.produce(ctx))
			running.Add(-1)
			end <- struct{}{}
		}()
		var terr error
		var over atomic.Bool
		wait := time.Duration(rng.IntN(3000)) * time.Millisecond
		go func() {
			sleep.For(ctx, wait)
			opt := opts()
			opt.breaks = b
			_, terr = RolledBack(ctx, volume("a"), opt)
			over.Store(true)
			running.Add(-1)
			end <- struct{}{}
		}()
		freezes(sim, rng)
		until := 0
		rerr := sim.Run(func() bool {
			if over.Load() && until == 0 {
				until = sim.Ops() + 400 // the zombies go on for a while
			}
			return over.Load() && (running.Load() == 0 || sim.Ops() > until) || sim.Ops() > 20_000
		})
		cancel()
		sim.Stop()
		for range 3 {
			<-end
		}
		if rerr != nil && !errors.Is(rerr, nfssim.ErrIdle) {
			err = rerr
			return
		}
		said, err = z.judge(t, sim, terr, over.Load())
		if err != nil {
			err = fmt.Errorf("%w (the tool said %v)\n%s", err, terr, strings.Join(sim.Trace(), "\n"))
		}
	})
	return said, err
}

// freezes has hosts stand still for a while.
func freezes(sim *nfssim.Sim, rng *rand.Rand) {
	for range rng.IntN(4) {
		h := sim.Host([]string{"a", "b", "c"}[rng.IntN(3)])
		at := 100 + rng.IntN(1500)
		sim.At(at, h.Freeze)
		sim.At(at+20+rng.IntN(300), h.Thaw)
	}
}

// judge looks for what was acknowledged.
func (z *zombies) judge(t *testing.T, sim *nfssim.Sim, terr error, over bool) (string, error) {
	now := reopen(t, sim.Server())
	said := "done"
	switch {
	case !over:
		said = "not over"
	case errors.Is(terr, ErrRan):
		said = "ran"
	case errors.Is(terr, ErrRuns):
		said = "runs"
	case terr != nil:
		said = "failed"
	}
	s, err := now.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 3})
	ok(t, err)
	defer s.Close(bg)
	next, err := metalog.NextEpoch(now, partition.ManifestStream(ordersID, 1))
	ok(t, err)
	p := lead(t, s, 1, int32(next))
	defer p.Abandon(bg)
	got, err := p.Read(bg, 0, 1<<24, true)
	ok(t, err)
	for _, value := range z.acked {
		if !strings.Contains(string(got.Records), value) {
			return said, fmt.Errorf("record %q was acknowledged, and is gone", value)
		}
	}
	if said == "ran" || said == "not over" || said == "failed" && now.ID != "old" {
		return said, nil
	}
	st := owned(t, s, path.Join("meta", now.ID, "groups", projections.ShardName(groupShard)), groups.Schema())
	for g := range st.Groups() {
		if o, _ := g.At(ordersID, 0); o.Offset < z.offset {
			return said, fmt.Errorf("offset %d was acknowledged, and the volume has %d", z.offset, o.Offset)
		}
	}
	return said, nil
}
