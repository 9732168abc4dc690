package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/tools/nfslab/lab"
)

// TestTakeoverWithStaleCaches: the hosts may answer from their caches for 30 s. A
// controller is gone right after it has acknowledged a change, and so are leaders; whoever
// takes over has the change, and the records, and no position is used twice.
func TestTakeoverWithStaleCaches(t *testing.T) {
	need(t)
	if err := endCommon(); err != nil {
		t.Fatal(err)
	}
	l := bringUp(t, lab.Options{Hosts: clusterSize, Kernel: wantsKernel(), Mount: "acregmin=30,acdirmin=30,lookupcache=all"})
	defer func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	c := newCluster(t, l)
	defer c.end()
	const parts = 3
	c.topic("kept", parts)
	s := c.stream("kept", parts)
	c.await(allow(20*time.Second), "every partition acknowledges", func() error { return s.all(parts) })
	rounds := []bool{false, false, true} // with a power loss
	if testing.Short() {
		rounds = rounds[1:]
	}
	for round, power := range rounds {
		c.takeOver(round, power)
		c.awaitReady(allow(time.Minute))
		now := time.Now()
		c.await(allow(time.Minute), "every partition acknowledges again", func() error { return s.since(now) })
	}
	s.end()
	c.wantAll("kept", &s.keep)
	c.wantSound(len(rounds))
}

// takeOver changes a setting, and has the controller gone as soon as that is acknowledged.
func (c *cluster) takeOver(round int, power bool) {
	c.t.Helper()
	old, err := c.controller(1)
	if err != nil || old < 1 {
		c.t.Fatalf("the controller is %d, %v", old, err)
	}
	rest := others(old)
	want := base + round
	if err := c.alter(rest[round%2], "kept", setting, strconv.Itoa(want)); err != nil {
		c.t.Fatal(err)
	}
	host := c.lab.Host(int(old))
	began := time.Now()
	if power {
		err = host.Kill()
	} else {
		err = c.all[old-1].Kill(c.within(10 * time.Second))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	took := c.await(allow(time.Minute), "another controller", func() error {
		for _, n := range rest {
			if now, err := c.controller(n); err != nil || now == old || now < 1 {
				return fmt.Errorf("broker %d: the controller is %d, %w", n, now, err)
			}
		}
		return nil
	})
	for _, n := range rest {
		if got, err := c.described(n, "kept"); err != nil || got != want {
			c.t.Errorf("round %d: after the takeover broker %d goes by %d, %v; acknowledged was %d", round, n, got, err, want)
		}
	}
	c.t.Logf("round %d: broker %d was controller and is gone (power loss: %t); another was controller %v later", round, old, power, took.Round(10*time.Millisecond))
	if power {
		if err := host.Boot(c.within(2 * time.Minute)); err != nil {
			c.t.Fatal(err)
		}
	}
	c.start(int(old))
	c.t.Logf("it was back %v after the loss", time.Since(began).Round(10*time.Millisecond))
}

// wantSound has kaas-meta look at the volume: no faults, and no position twice.
func (c *cluster) wantSound(takeovers int) {
	c.t.Helper()
	bin, err := c.lab.Build(c.within(time.Minute), "kaas.dev/kaas/tools/kaas-meta")
	if err != nil {
		c.t.Fatal(err)
	}
	h := c.lab.Host(1)
	sh(c.t, h, bin+" --dir "+c.dir+" verify --deep")
	var entries []struct{ Position string }
	out := sh(c.t, h, bin+" --dir "+c.dir+" log -o json")
	if err := json.Unmarshal([]byte(out), &entries); err != nil {
		for line := range strings.Lines(out) {
			var e struct{ Position string }
			if json.Unmarshal([]byte(line), &e) == nil {
				entries = append(entries, e)
			}
		}
	}
	epochs, seen := map[string]bool{}, map[string]bool{}
	for _, e := range entries {
		if seen[e.Position] {
			err = errors.Join(err, fmt.Errorf("position %s is there twice", e.Position))
		}
		seen[e.Position] = true
		epoch, _, _ := strings.Cut(e.Position, "-")
		epochs[epoch] = true
	}
	if len(epochs) < takeovers+1 {
		c.t.Errorf("%d epochs of the cluster stream, want one for each controller", len(epochs))
	}
	c.t.Logf("%d entries in %d epochs, and kaas-meta finds no fault", len(entries), len(epochs))
}

// TestReplaceLoop: a file is replaced as fast as can be while two other hosts open it as
// fast as they can. Nobody sees an error, or an older one after a newer.
func TestReplaceLoop(t *testing.T) {
	times := 1000
	if testing.Short() {
		times = 200
	}
	l, probe := hosts(t)
	lines, result := lines[change](t.Context(), l.Host(1), fmt.Sprintf("%s replace --who loop --n %d --every 1ms", probe, times))
	if _, ok := <-lines; !ok { // before the first there is nothing to open
		t.Fatal(result())
	}
	type readings struct {
		seen []change
		err  error
	}
	done := make(chan readings)
	for n := 2; n <= 3; n++ {
		go func() { // ends with the command
			seen, err := all[change](t.Context(), l.Host(n), fmt.Sprintf("%s reopen --who loop --n %d --every 1ms", probe, times))
			done <- readings{seen, err}
		}()
	}
	for range 2 {
		r := <-done
		if r.err != nil {
			t.Error(r.err)
		}
		t.Logf("%d of %d replacements were seen, each without an error", len(r.seen), times)
	}
	for range lines {
	}
	if err := result(); err != nil {
		t.Error(err)
	}
}
