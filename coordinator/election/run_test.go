package election

import (
	"fmt"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate/nfssim"
)

const (
	// A candidate looks every half second and waits out a lease of three; calls take time.
	takeover = 4200 * time.Millisecond
	handed   = 700 * time.Millisecond
	// The holder's retry period and renew deadline, and calls.
	givenUp = 2600 * time.Millisecond
)

func TestTakeoverAfterDeath(t *testing.T) {
	var longest time.Duration
	for seed := range int64(40) {
		inSim(t, nfssim.Config{Seed: seed, Delegations: seed%2 == 0}, func(w *world) {
			ns := w.trio()
			w.pass(time.Duration(seed) * 77 * time.Millisecond)
			w.kill(ns[0])
			took := w.within(takeover, fmt.Sprintf("seed %d: a new leader", seed), func() bool { return leader(ns[1:]...) != nil })
			longest = max(longest, took)
		})
	}
	t.Logf("longest %v", longest)
	if longest < 3*time.Second-500*time.Millisecond {
		t.Errorf("the longest takes %v: the lease is not waited out", longest)
	}
}

// On a directory of this host a sick holder is as good as a dead one.
func TestTakeoverOnDisk(t *testing.T) {
	onDisk(t, func(w *world) {
		for range 8 {
			for _, n := range w.nodes {
				n.sick.Store(false)
			}
			if len(w.nodes) == 0 {
				w.trio()
			}
			ns := w.sorted()
			w.pass(2 * time.Second)
			ns[0].sick.Store(true)
			took := w.within(takeover, "a new leader", func() bool { return leader(ns[1:]...) != nil })
			w.Log(took)
		}
	})
}

func TestRelease(t *testing.T) {
	everywhere(t, func(w *world) {
		ns := w.trio()
		for len(ns) > 1 {
			w.pass(1300 * time.Millisecond)
			ns[0].stop()
			took := w.within(handed, "a new leader", func() bool { return leader(ns[1:]...) != nil })
			w.Log(took)
			<-ns[0].ended
			w.nodes = ns[1:]
			ns = w.sorted()
		}
	})
}

// A restarted process of the same node ID goes on where its dead self was.
func TestRestartRenewsAtOnce(t *testing.T) {
	inSim(t, nfssim.Config{Seed: 3}, func(w *world) {
		ns := w.trio()
		w.kill(ns[0])
		again := w.start(w.node("h9", ns[0].id))
		w.within(200*time.Millisecond, "the restarted one leads", again.leading.Load)
		w.pass(20 * time.Second)
		if leader(ns[1:]...) != nil || again.terms.Load() != 1 {
			t.Errorf("others lead: %v; terms %d", leader(ns[1:]...) != nil, again.terms.Load())
		}
	})
}

// K-01, N-07: a holder whose volume hangs gives up at the deadline, another takes over,
// and the first is a candidate again without a restart.
func TestHangingVolume(t *testing.T) {
	for seed := range int64(10) {
		inSim(t, nfssim.Config{Seed: seed}, func(w *world) {
			ns := w.trio()
			hung := ns[0].host
			w.sim.Hang(func(op nfssim.Op) bool { return op.Host == hung })
			w.within(givenUp, "Lead's context ends", func() bool { return !ns[0].leading.Load() })
			w.within(takeover-givenUp+200*time.Millisecond, "a new leader", func() bool { return leader(ns[1:]...) != nil })
			w.pass(time.Minute)
			w.sim.Unhang()
			w.pass(5 * time.Second)
			if ns[0].leading.Load() || leader(ns[1:]...) == nil {
				w.Error("the first took the election from a holder that is well")
			}
			ns[1].stop()
			ns[2].stop()
			w.within(takeover, "the first leads again", ns[0].leading.Load)
		})
	}
}

// All hosts hang for longer than the lease: nobody leads meanwhile, and then one does.
func TestEveryHostHangs(t *testing.T) {
	for seed := range int64(10) {
		inSim(t, nfssim.Config{Seed: seed}, func(w *world) {
			w.trio()
			w.sim.Hang(func(nfssim.Op) bool { return true })
			w.within(givenUp, "no leader", func() bool { return leader(w.nodes...) == nil })
			w.pass(90 * time.Second)
			w.sim.Unhang()
			w.within(takeover, "a leader", func() bool { return leader(w.nodes...) != nil })
			w.pass(5 * time.Second)
			leads := 0
			for _, n := range w.nodes {
				leads += int(n.running.Load())
			}
			if leads != 1 {
				w.Errorf("%d lead", leads)
			}
		})
	}
}

// K-01: a volume that is slow, but not for as long as the deadline, changes nothing.
func TestShortStallsChangeNothing(t *testing.T) {
	inSim(t, nfssim.Config{Seed: 5}, func(w *world) {
		ns := w.trio()
		for range 10 {
			// The others' calls keep the simulation's steps short.
			w.sim.Hang(func(op nfssim.Op) bool { return op.Host == ns[0].host })
			w.pass(1300 * time.Millisecond)
			w.sim.Unhang()
			w.pass(1700 * time.Millisecond)
		}
		if !ns[0].leading.Load() || ns[0].terms.Load() != 1 {
			t.Errorf("leading %v after %d terms", ns[0].leading.Load(), ns[0].terms.Load())
		}
	})
}

// N-07, K-01: who is not well neither renews nor takes.
func TestUnhealthy(t *testing.T) {
	everywhere(t, func(w *world) {
		ns := w.trio()
		ns[0].sick.Store(true)
		w.within(givenUp, "Lead's context ends", func() bool { return !ns[0].leading.Load() })
		w.within(takeover, "a new leader", func() bool { return leader(ns[1:]...) != nil })
		ns[1].stop()
		ns[2].stop()
		w.pass(30 * time.Second)
		if ns[0].terms.Load() != 1 {
			w.Error("an unhealthy process took the election")
		}
		ns[0].sick.Store(false)
		w.within(takeover, "it is well and leads", ns[0].leading.Load)
	})
}

// K-02: while a Lead has not returned its process does not campaign; others do.
func TestLeadThatDoesNotReturn(t *testing.T) {
	everywhere(t, func(w *world) {
		var all []*node
		for i := range 2 {
			n := w.node(fmt.Sprint("h", i), fmt.Sprint(i))
			n.stuck = make(chan struct{})
			all = append(all, w.start(n))
		}
		ns := w.sorted()
		a, b := ns[0], ns[1]
		a.sick.Store(true)
		w.within(takeover, "the other leads", b.leading.Load)
		a.sick.Store(false)
		b.stop()
		w.pass(20 * time.Second)
		if a.terms.Load() != 1 || leader(all...) != nil {
			w.Error("a process campaigned while its Lead was running")
		}
		close(a.stuck)
		a.stuck = nil
		w.within(takeover, "it leads again", a.leading.Load)
	})
}

// K-02: work that ends by itself gives the lock up, and is tried again with pauses.
func TestLeadReturnsEarly(t *testing.T) {
	everywhere(t, func(w *world) {
		a := w.node("h0", "0")
		a.early = true
		w.start(a)
		w.within(time.Second, "first term", func() bool { return a.terms.Load() == 1 })
		b := w.start(w.node("h1", "1"))
		w.within(handed, "the other leads", b.leading.Load)
		w.pass(10 * time.Second)
		if n := a.terms.Load(); n != 1 {
			w.Errorf("%d terms beside a holder that is well", n)
		}
		b.stop()
		w.pass(time.Minute)
		if n := a.terms.Load(); n < 3 || n > 8 {
			w.Errorf("%d terms in a minute alone, want a few", n)
		}
	})
}

// A holder that slept sees at its next call that somebody else holds the lock.
func TestFrozenHost(t *testing.T) {
	inSim(t, nfssim.Config{Seed: 2, Delegations: true}, func(w *world) {
		ns := w.trio()
		h := w.sim.Host(ns[0].host)
		h.Freeze()
		w.within(takeover, "a new leader", func() bool { return leader(ns[1:]...) != nil })
		w.pass(20 * time.Second)
		h.Thaw()
		w.pass(10 * time.Second)
		if ns[0].leading.Load() {
			t.Error("both lead")
		}
	})
}

// A holder that meets somebody else's record ends its term at once, not at its deadline.
func TestDeposedAtOnce(t *testing.T) {
	everywhere(t, func(w *world) {
		n := w.start(w.node("h0", "0"))
		w.within(time.Second, "it leads", n.leading.Load)
		w.pass(2100 * time.Millisecond)
		v := w.server()
		es, err := v.List(dir)
		ok(w.T, err)
		data, err := encodeRecord(record("9"))
		ok(w.T, err)
		ok(w.T, v.WriteFile(recordPath(newest(numbers(es))+1), data))
		w.within(handed, "Lead's context ends", func() bool { return !n.leading.Load() })
		if took := w.within(takeover, "the record expires", n.leading.Load); took < 3*time.Second {
			w.Errorf("leads again after %v", took)
		}
	})
}

// Lost replies, stale listings and failing calls do not depose a holder that is well.
func TestSteadyThroughFaults(t *testing.T) {
	deposed := 0
	for seed := range int64(20) {
		cfg := nfssim.Config{Seed: seed, LostReply: 0.05, StaleList: 0.3, Delegations: true}
		inSim(t, cfg, func(w *world) {
			ns := w.trio()
			w.pass(time.Minute)
			total := int32(0)
			for _, n := range ns {
				total += n.terms.Load()
			}
			deposed += int(total) - 1
			if leader(ns...) == nil {
				w.within(takeover, "a leader", func() bool { return leader(ns...) != nil })
			}
		})
	}
	t.Logf("%d of 20 minutes saw another term", deposed)
	if deposed > 1 {
		t.Errorf("%d terms too many in 20 minutes", deposed)
	}
}

func TestConfigThatCannotWork(t *testing.T) {
	lock := NewVolumeLock(nil, "1")
	for _, cfg := range []Config{
		{},
		{Lock: NewVolumeLock(nil, "")},
		{Lock: NewVolumeLock(nil, "?")},
		{Lock: lock, LeaseDuration: 2 * time.Second},
		{Lock: lock, LeaseDuration: 2500 * time.Millisecond, RenewDeadline: time.Second},
		{Lock: lock, RetryPeriod: 1500 * time.Millisecond},
		{Lock: lock, RetryPeriod: -1},
	} {
		if err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}
