package kube

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/internal/substrate"
)

// The times that are stated, and what a machine that does much else takes in addition.
const (
	call  = election.LeaseRenewDeadline / 2
	busy  = time.Minute
	gone  = election.LeaseRetry + election.LeaseRenewDeadline + busy     // nobody leads, from when nobody can renew
	back  = election.LeaseRetry + call + busy                            // the same leads again
	other = election.LeaseDuration + election.LeaseRetry + 2*call + busy // another leads
	long  = election.LeaseDuration + election.LeaseRetry + 5*time.Second // longer than a lease, for a fault
)

// candidate is one that stands in an election by a Lease.
type candidate struct {
	id      int
	way     *Way
	stop    context.CancelFunc
	leading atomic.Bool
	terms   atomic.Int32
}

// candidates has three stand for a Lease of a name, and returns them with the elected first.
func candidates(t *testing.T, s *Server, mu *sync.Mutex, name string) []*candidate {
	t.Helper()
	var cs []*candidate
	var wg sync.WaitGroup
	t.Cleanup(func() {
		for _, c := range cs {
			c.stop()
		}
		wg.Wait()
	})
	for id := range 3 {
		mu.Lock() // the environment is everybody's
		way, err := s.Way()
		if err != nil {
			t.Fatal(err)
		}
		os.Setenv("KUBECONFIG", way.Kubeconfig)
		lock, err := election.NewLeaseLock(election.LeaseConfig{Name: name, Identity: strconv.Itoa(id)})
		mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		c := &candidate{id: id, way: way, stop: cancel}
		cs = append(cs, c)
		wg.Go(func() {
			err := election.Run(ctx, election.Config{
				Lock: lock, LeaseDuration: election.LeaseDuration, RenewDeadline: election.LeaseRenewDeadline, RetryPeriod: election.LeaseRetry,
				Lead: c.lead, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	within(t, other, "somebody leads", func() bool { return leader(cs) != nil })
	first := leader(cs)
	out := []*candidate{first}
	for _, c := range cs {
		if c != first {
			out = append(out, c)
		}
	}
	pass(2 * election.LeaseRetry) // all have looked
	return out
}

func (c *candidate) lead(ctx context.Context) {
	c.terms.Add(1)
	c.leading.Store(true)
	<-ctx.Done()
	c.leading.Store(false)
}

func leader(cs []*candidate) *candidate {
	for _, c := range cs {
		if c.leading.Load() {
			return c
		}
	}
	return nil
}

func others(cs []*candidate) (terms int32) {
	for _, c := range cs[1:] {
		terms += c.terms.Load()
	}
	return terms
}

func within(t *testing.T, most time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); pass(10 * time.Millisecond) {
		if time.Since(began) > most {
			t.Fatalf("not within %v: %s", most, what)
		}
	}
}

// took is within, which tells how long it was.
func took(t *testing.T, most time.Duration, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	within(t, most, what, ok)
	t.Logf("%s after %v", what, time.Since(began).Round(10*time.Millisecond))
}

func pass(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}

// unchanged is the end of a fault that is to change nothing.
func unchanged(t *testing.T, cs []*candidate) {
	t.Helper()
	took(t, back, "the same leads", cs[0].leading.Load)
	pass(2 * election.LeaseRetry)
	if n := others(cs); n > 0 || leader(cs) != cs[0] {
		t.Errorf("others had %d terms", n)
	}
	t.Logf("terms: %d", cs[0].terms.Load())
}

func start(t *testing.T) *Server {
	t.Helper()
	if os.Getenv("KAAS_K8S") == "" {
		t.Skip("KAAS_K8S is not set: starts the API server of a Kubernetes")
	}
	dir, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := Start(t.Context(), dir, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// K-01, K-02: what an API server can do to those that are elected by it. Faults of the ways
// to it run side by side, each with an election of its own; then those of the server.
func TestElectionByLease(t *testing.T) {
	s := start(t)
	var mu sync.Mutex
	t.Run("ways", func(t *testing.T) {
		for name, fault := range map[string]func(*testing.T, []*candidate, string){
			"slow": func(t *testing.T, cs []*candidate, _ string) {
				each(cs, func(w *Way) { w.Slow(2 * time.Second) })
				pass(long)
				each(cs, func(w *Way) { w.Slow(0) })
				unchanged(t, cs)
			},
			"cut": func(t *testing.T, cs []*candidate, _ string) {
				each(cs, (*Way).Cut)
				took(t, gone, "nobody leads", func() bool { return leader(cs) == nil })
				pass(length(30*time.Second, long))
				each(cs, (*Way).Heal)
				unchanged(t, cs)
			},
			"cut for who leads": func(t *testing.T, cs []*candidate, _ string) {
				cs[0].way.Cut()
				took(t, gone, "it leads no more", func() bool { return !cs[0].leading.Load() })
				took(t, other, "another leads", func() bool { return leader(cs[1:]) != nil })
				cs[0].way.Heal()
				pass(long)
				if cs[0].terms.Load() != 1 || others(cs) != 1 {
					t.Errorf("terms %d, and %d of others", cs[0].terms.Load(), others(cs))
				}
				cs[1].stop()
				cs[2].stop()
				took(t, other, "it leads again without a restart", cs[0].leading.Load)
			},
			"deleted": func(t *testing.T, cs []*candidate, lease string) {
				for range 8 {
					if err := s.DeleteLease(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
					within(t, back, "the Lease is made again", func() bool {
						holder, _, err := s.Lease(t.Context(), lease)
						return err == nil && holder == strconv.Itoa(cs[0].id)
					})
					pass(2 * election.LeaseRetry) // all have looked
				}
				unchanged(t, cs)
				if cs[0].terms.Load() != 1 {
					t.Errorf("%d terms", cs[0].terms.Load())
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				lease := fmt.Sprintf("l%x", name)
				fault(t, candidates(t, s, &mu, lease), lease)
			})
		}
	})
	for _, f := range []struct {
		name  string
		fault func(*testing.T, []*candidate) error
	}{
		{"stopped", func(t *testing.T, cs []*candidate) error {
			if err := s.Pause(); err != nil {
				return err
			}
			took(t, gone, "nobody leads", func() bool { return leader(cs) == nil })
			pass(length(20*time.Second, 3*time.Second))
			return s.Resume()
		}},
		{"killed", func(t *testing.T, _ []*candidate) error { return s.Kill(t.Context()) }},
	} {
		t.Run(f.name, func(t *testing.T) {
			cs := candidates(t, s, &mu, f.name)
			if err := f.fault(t, cs); err != nil {
				t.Fatal(err)
			}
			unchanged(t, cs)
		})
	}
}

// What etcd had earlier comes back: a Lease of another holder, and older. Whoever that makes
// leader, it is one.
func TestElectionByAnOlderLease(t *testing.T) {
	if testing.Short() {
		t.Skip("starts everything three times; kaas-check does so, too")
	}
	s := start(t)
	var mu sync.Mutex
	cs := candidates(t, s, &mu, "kaas")
	if err := s.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	cs[0].way.Cut()
	took(t, other, "another leads", func() bool { return leader(cs[1:]) != nil })
	cs[0].way.Heal()
	if err := s.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	one := func() bool {
		n := 0
		for _, c := range cs {
			if c.leading.Load() {
				n++
			}
		}
		return n == 1
	}
	took(t, other, "somebody leads", one)
	pass(long)
	within(t, back, "one leads", one)
	if holder, _, err := s.Lease(t.Context(), "kaas"); err != nil || holder != strconv.Itoa(leader(cs).id) {
		t.Errorf("%q holds the Lease, %v", holder, err)
	}
}

func each(cs []*candidate, f func(*Way)) {
	for _, c := range cs {
		f(c.way)
	}
}

// length is that of a fault; the short one is enough to show what it does.
func length(usual, short time.Duration) time.Duration {
	if testing.Short() {
		return short
	}
	return usual
}
