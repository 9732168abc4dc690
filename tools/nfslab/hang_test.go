package main

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestServerHangs: while the NFS server hangs every broker answers what needs no volume,
// producers get their answer in time, and all goes on by itself afterwards, in the
// same processes.
func TestServerHangs(t *testing.T) {
	l, _ := hosts(t)
	c := newCluster(t, l)
	const parts = 3
	c.topic("hung", parts)
	s := c.stream("hung", parts)
	c.await(allow(10*time.Second), "every partition acknowledges", func() error { return s.all(parts) })
	long := time.Minute
	if testing.Short() {
		long = 20 * time.Second
	}
	c.hang(5*time.Second, s)
	c.hang(long, s)
	s.end()
	for _, b := range c.all {
		if _, err := c.lab.Host(b.Host.Number()).Exec(c.within(10*time.Second), fmt.Sprintf("kill -0 %d", b.PID)); err != nil {
			t.Errorf("a broker has ended: %v", err)
		}
	}
	c.wantAll("hung", &s.keep)
}

// all reports whether every one of n partitions was acknowledged.
func (s *stream) all(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.at) < n {
		return fmt.Errorf("%d of %d partitions have acknowledged", len(s.mu.at), n)
	}
	return nil
}

func (c *cluster) hang(lasts time.Duration, s *stream) {
	c.t.Helper()
	leaders := map[int32]int32{}
	for p := range int32(3) {
		leaders[p], _ = c.newest("hung", p)
	}
	if err := c.lab.Server().Pause(); err != nil {
		c.t.Fatal(err)
	}
	began := time.Now()
	wg := sync.WaitGroup{}
	for p, leader := range leaders {
		wg.Go(func() { c.produceHung(leader, p, began.Add(lasts)) })
	}
	var red time.Duration
	slowest := time.Duration(0)
	for time.Since(began) < lasts {
		for n := range clusterSize {
			at := time.Now()
			_, err := c.ask(n+1, kmsg.NewPtrApiVersionsRequest(), allow(2*time.Second))
			if err := errors.Join(err, c.get(n+1, "/healthz")); err != nil {
				c.t.Errorf("%v after the server hung: %v", time.Since(began), err)
			}
			slowest = max(slowest, time.Since(at))
		}
		if red == 0 && c.get(1, "/readyz") != nil && c.get(2, "/readyz") != nil && c.get(3, "/readyz") != nil {
			red = time.Since(began)
		}
		<-time.After(100 * time.Millisecond)
	}
	if err := c.lab.Server().Resume(); err != nil {
		c.t.Fatal(err)
	}
	resumed := time.Now()
	wg.Wait()
	acks := c.await(allow(90*time.Second), "every partition acknowledges again", func() error { return s.since(resumed) })
	c.awaitReady(allow(time.Minute))
	c.t.Logf("hung for %v: versions and health took at most %v; no broker was ready from %v on (0: never); all partitions acknowledged %v after it was back, all brokers were ready after %v",
		lasts, slowest.Round(time.Millisecond), red.Round(100*time.Millisecond), acks.Round(10*time.Millisecond), time.Since(resumed).Round(10*time.Millisecond))
	if lasts >= 20*time.Second && red == 0 {
		c.t.Error("the brokers stayed ready")
	}
}

// produceHung produces until a time, and wants each answer within the request's own
// timeout, or little more. A broker waits for five seconds whatever the timeout.
func (c *cluster) produceHung(leader, p int32, until time.Time) {
	const timeout = 6 * time.Second
	more := allow(1500 * time.Millisecond)
	own := *c
	own.cl = c.client(c.addrs()) // on other connections, whose answers wait for one another
	worst, n := time.Duration(0), 0
	for time.Now().Before(until) {
		at := time.Now()
		_, err := own.produce(leader, "hung", p, "while it hangs", timeout)
		took := time.Since(at)
		if n++; took > timeout+more || err == nil && time.Now().Before(until) {
			c.t.Errorf("produce to partition %d while the server hangs: %v after %v", p, err, took)
		}
		worst = max(worst, took)
		<-time.After(200 * time.Millisecond)
	}
	c.t.Logf("%d requests to partition %d, with a timeout of %v, were answered within %v", n, p, timeout, worst.Round(time.Millisecond))
}
