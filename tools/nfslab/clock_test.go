package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-check/history"
	"kaas.dev/kaas/tools/kaas-check/traffic"
)

// TestClockSteps: K-03 with clocks of kernels. One host is an hour behind from before its broker
// starts; then all step to both sides, at once and one after the other. After each step a
// session and a transaction that are over soon have to end, so that who ends them has looked.
// The controller has to stay in its term, members in their groups, a transaction open, brokers
// unfenced, and what is committed and stored has to be there. Every one of these has more time
// than a machine is slow for, and less than a step.
func TestClockSteps(t *testing.T) {
	const step = time.Hour
	l, _ := hosts(t)
	set := func(n int, ahead time.Duration) {
		t.Helper()
		if err := l.Host(n).SetClock(t.Context(), ahead); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // for the tests that follow, which have another lab where this one has failed
		for n := 1; n <= clusterSize && !t.Failed(); n++ {
			if err := l.Host(n).SetClock(context.Background(), 0); err != nil {
				t.Error(err)
			}
		}
	})
	set(clusterSize, -step)
	c := newCluster(t, l, slices.Concat(traffic.ClockSets(500*time.Millisecond), traffic.ReignSets(), traffic.LapseSets())...)
	env := traffic.New(traffic.Env{Seeds: c.addrs(), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return l.DialContext(ctx, network, addr)
	}, Log: history.NewRecorder(0, nil)})
	names := 0
	name := func() string { names++; return fmt.Sprintf("name-%d", names) }
	var held *traffic.Held
	c.await(allow(time.Minute), "all of it has begun", func() (err error) {
		held, err = env.Hold(c.within(allow(time.Minute)), name())
		return err
	})
	first := c.term()
	look := func(what string, ask func(context.Context) (lost, unknown error)) {
		t.Helper()
		lost, unknown := ask(c.within(allow(time.Minute)))
		if err := errors.Join(lost, unknown); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if now := c.term(); now != first {
			t.Errorf("%s: the controller was %v, and is %v", what, first, now)
		}
	}
	began, steps := time.Now(), clockSteps(int(first.Node), step)
	for _, clocks := range steps {
		for n, ahead := range clocks {
			set(n, ahead)
		}
		c.await(allow(time.Minute), "what is due ends", func() error { return env.Lapse(c.within(allow(time.Minute)), name()) })
		look(fmt.Sprintf("with clocks ahead by %v", clocks), held.Look)
	}
	look("in the end", held.End)
	c.wantUnfenced()
	t.Logf("the controller is %v; %d steps in %v", first, len(steps), time.Since(began).Round(time.Second))
}

// clockSteps are how far clocks are set ahead, step by step: first of all hosts, those that do
// not have the controller to the other side, and then of one after the other.
func clockSteps(controller int, step time.Duration) (out []map[int]time.Duration) {
	rest := others(int32(controller))
	for _, by := range []time.Duration{step, -step, 0} {
		out = append(out, map[int]time.Duration{controller: by, rest[0]: -by, rest[1]: -by})
	}
	for n := 1; n <= clusterSize && !testing.Short(); n++ {
		for _, by := range []time.Duration{step, -step, 0} {
			out = append(out, map[int]time.Duration{n: by})
		}
	}
	return out
}

// wantUnfenced wants every broker to be what it was registered as: who is fenced comes back by
// itself, and few notice.
func (c *cluster) wantUnfenced() {
	c.t.Helper()
	bin, err := c.lab.Build(c.within(allow(time.Minute)), "kaas.dev/kaas/tools/kaas-meta")
	if err != nil {
		c.t.Fatal(err)
	}
	log := sh(c.t, c.lab.Host(1), bin+" --dir "+c.dir+" log -o json")
	for event, want := range map[projections.Fact]int{&projections.BrokerRegistered{}: clusterSize, &projections.BrokerFenced{}: 0} {
		if got := strings.Count(log, strconv.Quote(event.EventName())); got != want {
			c.t.Errorf("%d times %s, want %d:\n%s", got, event.EventName(), want, log)
		}
	}
}

// term is the newest that a broker knows.
func (c *cluster) term() (newest traffic.Term) {
	c.t.Helper()
	ctx := c.within(allow(time.Minute))
	for n := range c.all {
		for {
			once, cancel := context.WithTimeout(ctx, 2*time.Second)
			t, err := traffic.AskTerm(once, c.cl.Broker(n+1))
			cancel()
			if err == nil {
				if t.Epoch > newest.Epoch {
					newest = t
				}
				break
			}
			if ctx.Err() != nil {
				c.t.Fatalf("broker %d: the controller's term: %v", n+1, err)
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	return newest
}
