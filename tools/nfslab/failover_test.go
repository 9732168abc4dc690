package main

import (
	"context"
	"testing"
	"time"
)

// TestFailover measures how long a partition acknowledges nothing when a broker is lost,
// in each of several ways. How long it takes is a matter of the machine too; only a
// limit that no machine should need is wanted.
func TestFailover(t *testing.T) {
	const parts, most = 6, time.Minute
	if testing.Short() {
		t.Skip("measures, more than it tests")
	}
	l, _ := hosts(t)
	c := newCluster(t, l)
	c.topic("led", parts)
	s := c.stream("led", parts)
	c.await(20*time.Second, "every partition acknowledges", func() error { return s.all(parts) })
	for _, loss := range []struct {
		name       string
		controller bool // it is lost, otherwise another
		lose       func(n int) error
		back       func(n int) error
	}{
		{"kill -9", false, func(n int) error { return c.all[n-1].Kill(c.within(30 * time.Second)) }, nil},
		{"kill -9 of the controller", true, func(n int) error { return c.all[n-1].Kill(c.within(30 * time.Second)) }, nil},
		{"graceful stop", false, func(n int) error { return c.all[n-1].Stop(c.within(time.Minute)) }, nil},
		{"power loss of its host", false, func(n int) error { return l.Host(n).Kill() }, func(n int) error { return l.Host(n).Boot(context.WithoutCancel(t.Context())) }},
		{"its host is frozen", false, func(n int) error { return l.Host(n).Pause() }, func(n int) error { return l.Host(n).Resume() }},
	} {
		c.awaitReady(most)
		lost := c.victim(loss.controller)
		began := time.Now()
		if err := loss.lose(lost); err != nil {
			t.Fatal(err)
		}
		after := time.Now()
		c.await(most, loss.name+": every partition acknowledges again", func() error { return s.since(after) })
		if loss.back != nil {
			if err := loss.back(lost); err != nil {
				t.Fatal(err)
			}
		}
		if loss.name != "its host is frozen" {
			c.start(lost)
		}
		c.awaitReady(most)
		t.Logf("%s: a partition acknowledged nothing for at most %v, until all were ready again", loss.name, s.longest(began))
	}
	s.end()
	c.wantAll("led", &s.keep)
}

// victim is the controller, or the first broker that is not.
func (c *cluster) victim(controller bool) int {
	c.t.Helper()
	n, err := c.controller(1)
	if err != nil || n < 1 {
		c.t.Fatalf("the controller is %d, %v", n, err)
	}
	if controller {
		return int(n)
	}
	return others(n)[0]
}
