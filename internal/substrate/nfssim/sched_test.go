package nfssim

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// busy is a workload of several goroutines on several hosts, with crashes.
func busy(t *testing.T, cfg Config, calls int) (trace []string, elapsed time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s := New(cfg)
		var left atomic.Int64
		for i := range 3 {
			h := s.Host(fmt.Sprint("h", i))
			for range 2 {
				left.Add(2)
				p := h.FS()
				for g := range 2 {
					go func() {
						defer left.Add(-1)
						churn(p, fmt.Sprint(i, g), calls)
					}()
				}
			}
		}
		s.At(calls/2, s.Host("h1").PowerLoss)
		s.At(calls/3, func() { s.Host("h2").Freeze() })
		s.At(calls/2, func() { s.Host("h2").Thaw() })
		s.At(calls/4, s.ServerPowerLoss)
		if err := s.Run(func() bool { return s.Ops() >= calls || left.Load() == 0 }); err != nil {
			t.Error(err)
		}
		trace = s.Trace()
		elapsed = time.Since(begun)
		checkCounts(t, s)
		s.Stop()
	})
	return trace, elapsed
}

// checkCounts kills everything and counts the links and opens that remain.
func checkCounts(t *testing.T, s *Sim) {
	for _, h := range s.hosts {
		for _, p := range slices.Clone(h.procs) {
			p.Kill()
		}
	}
	links := map[*inode]int{s.srv.root: 1}
	var count func(d *inode)
	count = func(d *inode) {
		for _, k := range d.kids {
			links[k]++
			if k.isDir {
				count(k)
			}
		}
	}
	count(s.srv.root)
	for i, n := range links {
		if i.nlink != n || i.opens != 0 || i.writers != 0 {
			t.Errorf("inode %d has %d links (counted %d), %d opens, %d writers", i.id, i.nlink, n, i.opens, i.writers)
		}
	}
}

func churn(p substrate.FS, who string, calls int) {
	for i := range calls {
		name := fmt.Sprint("f", i%7)
		if f, err := p.CreateExclusive(who + name); err == nil {
			_, _ = f.WriteAt([]byte(name), int64(i%3))
			_ = f.Datasync()
			_ = f.Close()
		}
		_ = p.Rename(who+name, name)
		if f, err := p.Open(name); err == nil {
			_, _ = f.ReadAt(make([]byte, 10), 0)
			_ = f.Close()
		}
		_, _ = p.List(".")
		if i%5 == 0 {
			_ = p.Remove(name)
		}
	}
}

func TestReplay(t *testing.T) {
	cfg := Config{Delegations: true, StaleList: 0.1, LostReply: 0.1, Late: 0.3, TraceLen: 2100}
	for seed := range int64(10) {
		cfg.Seed = seed
		cfg.Local = seed%3 == 2
		first, _ := busy(t, cfg, 2000)
		for range 2 {
			again, _ := busy(t, cfg, 2000)
			if !slices.Equal(first, again) {
				for k := range first {
					if k >= len(again) || first[k] != again[k] {
						t.Fatalf("seed %d differs at %d:\n%s\n%s", seed, k, first[k], again[min(k, len(again)-1)])
					}
				}
			}
		}
	}
	cfg.Seed = 1
	a, _ := busy(t, cfg, 500)
	cfg.Seed = 2
	if b, _ := busy(t, cfg, 500); slices.Equal(a, b) {
		t.Error("two seeds gave one trace")
	}
}

func TestCountsOverSeeds(t *testing.T) {
	for seed := range int64(50) {
		busy(t, Config{Seed: seed, Local: seed%3 == 0, Delegations: true, LostReply: 0.1, Late: 0.3, RestartStale: seed%2 == 0}, 400)
	}
}

// Some process must be starved for long while others go on.
func TestStarvation(t *testing.T) {
	longest := 0
	for seed := range int64(10) {
		last := map[int]int{}
		cfg := Config{Seed: seed, Fault: func(op Op) error {
			longest = max(longest, op.N-last[op.Proc])
			last[op.Proc] = op.N
			return nil
		}}
		synctest.Test(t, func(t *testing.T) {
			s := New(cfg)
			for range 3 {
				p := s.Host("a").FS()
				go churn(p, "x", 1000)
			}
			_ = s.Run(func() bool { return s.Ops() > 1500 })
			s.Stop()
		})
	}
	if longest < 100 {
		t.Errorf("longest wait of a process was %d calls", longest)
	}
}

func TestPausesLetTimersFire(t *testing.T) {
	_, elapsed := busy(t, Config{Seed: 5}, 5000)
	if elapsed < 5*time.Second || elapsed > 10*time.Minute {
		t.Errorf("5000 calls took %v of fake time", elapsed)
	}
}

// The sweep runs a million calls in CI, so a call may cost microseconds only: -v tells.
func TestManyCalls(t *testing.T) {
	const calls = 50_000
	begun := time.Now()
	busy(t, Config{Seed: 1, Delegations: true, LostReply: 0.01}, calls)
	t.Logf("%.0f calls a second", calls/time.Since(begun).Seconds())
}
