package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// image is what a storage snapshot holds: the bytes of files by name, nil for directories.
type image map[string][]byte

func imageOf(t *testing.T, fs substrate.FS, dir string, into image) {
	t.Helper()
	es, err := fs.List(dir)
	ok(t, err)
	for _, e := range es {
		name := path.Join(dir, e.Name)
		if e.Dir {
			into[name] = nil
			imageOf(t, fs, name, into)
			continue
		}
		f, err := fs.Open(name)
		ok(t, err)
		n, err := f.Size()
		ok(t, err)
		b := make([]byte, n)
		if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		ok(t, f.Close())
		into[name] = b
	}
}

// putBack makes the volume what it was.
func putBack(t *testing.T, fs substrate.FS, from image) {
	t.Helper()
	v := &substrate.Volume{FS: fs}
	es, err := fs.List(".")
	ok(t, err)
	for _, e := range es {
		if e.Dir {
			ok(t, v.RemoveTree(e.Name))
		} else {
			ok(t, v.Remove(e.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from)) { // a directory before what is in it
		if b := from[name]; b == nil {
			ok(t, v.Mkdir(name))
		} else {
			ok(t, v.WriteFile(name, b))
		}
	}
}

// keeps is a host's FS that unlinks no segments. An unlink that is on its way when the storage
// goes back cannot be held: that is why brokers are to be stopped before.
type keeps struct{ *nfssim.Process }

func (k keeps) Remove(name string) error {
	if strings.HasSuffix(name, ".log") {
		return syscall.EIO
	}
	return k.Process.Remove(name)
}

// TestBrokersOfBeforeTheRollback takes a snapshot while two brokers take a partition from
// each other, has them go on, and puts the snapshot back; some of them run, some stand still
// and go on when the volume is restored and another broker leads. Nothing that this one
// acknowledges is lost, and its manifest stays sound.
func TestBrokersOfBeforeTheRollback(t *testing.T) {
	led := 0
	sweep.Run(t, 100, func(seed int64) error {
		n, err := timeTravel(t, seed, 64, breaks{})
		led += n
		return err
	})
	if led == 0 {
		t.Error("nothing was acknowledged on the restored volume")
	}
}

// TestMarginCounts: with a margin that is too small an old broker's entry lands where the
// new leader writes.
func TestMarginCounts(t *testing.T) {
	sweep.Catches(t, 3000, func(seed int64) error {
		_, err := timeTravel(t, seed, 1, breaks{})
		return err
	})
}

// TestStrayEntriesCount: what an old broker writes after a hole makes the stream unusable, if
// it is left there.
func TestStrayEntriesCount(t *testing.T) {
	sweep.Catches(t, 3000, func(seed int64) error {
		_, err := timeTravel(t, seed, 64, breaks{noMend: true})
		return err
	})
}

func timeTravel(t *testing.T, seed int64, margin int32, b breaks) (acked int, err error) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		sim := nfssim.New(nfssim.Config{Seed: seed, Delegations: rng.IntN(2) == 0, Pause: -1, TraceLen: 300})
		defer sim.Stop()
		server := sim.Server()
		v, _ := populate(t, server)
		ctx, cancel := context.WithCancel(bg)
		ends := 0
		end := make(chan struct{}, 4)
		start := func(f func()) {
			ends++
			go func() { f(); end <- struct{}{} }()
		}
		kill := map[string]func(){}
		for _, name := range []string{"b", "c"} {
			z, proc := &zombies{}, sim.Host(name).Process()
			old := &substrate.Volume{FS: keeps{proc}, NewID: sweep.IDs(name), ID: v.ID}
			pause := rand.New(rand.NewPCG(rng.Uint64(), 8))
			lives, die := context.WithCancel(ctx)
			kill[name] = func() { die(); proc.Kill() }
			start(func() {
				z.broker(lives, old, false, func() time.Duration { return time.Duration(pause.IntN(40)) * time.Millisecond }, z.produce(lives))
			})
		}
		run := func(ops int) error {
			until := sim.Ops() + ops
			return sim.Run(func() bool { return sim.Ops() >= until })
		}
		step := func(what error) bool {
			if what != nil && err == nil {
				err = what
			}
			return err == nil
		}
		then := image{}
		_ = step(run(50 + rng.IntN(400)))
		imageOf(t, server, ".", then)
		_ = step(run(50 + rng.IntN(600)))
		var frozen []string
		for _, name := range []string{"b", "c"} {
			switch n := rng.IntN(8); {
			case n == 0: // it runs on
			case n < 3:
				kill[name]()
			default:
				frozen = append(frozen, name)
				sim.Host(name).Freeze()
			}
		}
		putBack(t, server, then)
		if rng.IntN(2) == 0 { // nobody has restored it yet
			for _, name := range frozen {
				sim.Host(name).Thaw()
			}
			if rerr := run(rng.IntN(60)); !errors.Is(rerr, nfssim.ErrIdle) { // all may have ended
				_ = step(rerr)
			}
			for _, name := range frozen {
				sim.Host(name).Freeze()
			}
		}
		n := &successor{}
		over := false
		start(func() { n.run(ctx, sim, margin, b); over = true })
		at, wake := 0, func() {
			for _, name := range frozen {
				sim.Host(name).Thaw()
			}
			frozen = nil
		}
		restored := func() bool {
			switch {
			case n.from == 0:
			case at == 0:
				at = sim.Ops() + rng.IntN(300)
			case sim.Ops() >= at:
				wake()
			}
			return over
		}
		rerr := sim.Run(restored)
		if errors.Is(rerr, nfssim.ErrIdle) { // the server waits for a host that stands still
			wake()
			rerr = sim.Run(restored)
		}
		_ = step(rerr)
		cancel()
		sim.Stop()
		for range ends {
			<-end
		}
		if err == nil {
			err = n.judge(t, server)
		}
		acked = len(n.acked)
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, strings.Join(sim.Trace(), "\n"))
		}
	})
	return acked, err
}

// successor restores the volume and leads the partition then, again and again.
type successor struct {
	from  substrate.Epoch // the restored manifest's
	acked []string
	bad   error

	failed error // the tool has not restored the volume
}

func (n *successor) run(ctx context.Context, sim *nfssim.Sim, margin int32, b breaks) {
	opt := opts()
	opt.EpochMargin, opt.breaks = margin, b
	fs := sim.Host("a").Process()
	v, err := substrate.ReadVolume(fs)
	if err != nil {
		return
	}
	v.NewID = sweep.IDs("a")
	r, err := RolledBack(ctx, v, opt)
	if err != nil {
		n.failed = err
		return
	}
	if len(r.Lost) > 0 {
		n.bad = fmt.Errorf("lost: %v", r.Lost)
		return
	}
	v = &substrate.Volume{FS: sim.Host("d").Process(), NewID: sweep.IDs("d"), ID: "volume.1"}
	c, _, err := metalog.ReadState(ctx, v, v.MetaDir()+"/cluster", projections.ClusterSchema())
	if err != nil {
		n.bad = err
		return
	}
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 2})
	if err != nil {
		n.bad = err
		return
	}
	defer s.Close(bg)
	defer func() { // sealed by a broker of before that had a session yet: what was acknowledged counts
		if n.bad != nil && errors.Is(s.Check(ctx), substrate.ErrFenced) {
			n.bad = nil
		}
	}()
	epoch := c.State.Topic("orders").Partitions[1].Epoch
	n.from = substrate.Epoch(epoch)
	for k := range 6 {
		epoch++
		p, err := partition.Open(ctx, s, ordersID, "orders", 1, epoch, config())
		if err != nil {
			n.bad = fmt.Errorf("open in epoch %d: %w", epoch, err)
			return
		}
		for i := range 8 {
			value := fmt.Sprintf("after %d-%d.", k, i)
			a, err := p.Append(ctx, batch(-1, -1, -1, value))
			if err == nil {
				err = a.Wait(ctx)
			}
			if err != nil {
				n.bad = fmt.Errorf("append in epoch %d: %w", epoch, err)
				_ = p.Abandon(bg)
				return
			}
			n.acked = append(n.acked, value)
		}
		_ = p.Abandon(ctx)
	}
}

func (n *successor) judge(t *testing.T, fs substrate.FS) error {
	if errors.Is(n.bad, substrate.ErrEpochTaken) {
		n.bad = nil // by such a broker, too
	}
	if n.bad != nil || n.from == 0 {
		if errors.Is(n.failed, ErrRuns) || errors.Is(n.failed, ErrRan) {
			return n.bad
		}
		return errors.Join(n.bad, n.failed)
	}
	v := &substrate.Volume{FS: fs}
	stream := partition.ManifestStream(ordersID, 1)
	r, err := metalog.Verify(v, stream, partition.ManifestSchema())
	if err != nil {
		return err
	}
	for _, f := range r.Findings {
		// Below, an old broker may have put an entry where its epoch is burnt. Nobody looks there.
		if f.Fault && f.File >= stream+"/"+substrate.EpochName(n.from) {
			return fmt.Errorf("the manifest: %+v", f)
		}
	}
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData, NodeID: 3})
	ok(t, err)
	defer s.Close(bg)
	next, err := metalog.NextEpoch(v, stream)
	ok(t, err)
	p, err := partition.Open(bg, s, ordersID, "orders", 1, int32(next), config())
	if err != nil {
		return err
	}
	defer p.Abandon(bg)
	got, err := p.Read(bg, 0, 1<<24, true)
	if err != nil {
		return err
	}
	for _, value := range n.acked {
		if !strings.Contains(string(got.Records), value) {
			return fmt.Errorf("record %q was acknowledged, and is gone", value)
		}
	}
	return nil
}
