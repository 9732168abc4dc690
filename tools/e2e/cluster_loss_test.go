package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// exitFenced is a broker's exit code when another process with its node.id took over.
const exitFenced = 3

// TestSecondProcessOfANode starts a second process under a node.id that serves (CASES
// Z-04): the first ends with its own exit code, and a producer that runs through it has
// each record at its offset, once.
func TestSecondProcessOfANode(t *testing.T) {
	need(t)
	c := startCluster(t)
	c.create(topic, 1, nil)
	var first int32
	c.await("somebody leads it", func() bool {
		first = c.leader(topic, 1)
		return first > 0
	})
	old := c.broker(first)
	quit := make(chan struct{})
	var got acks
	var wg sync.WaitGroup
	cl := c.newClient(kgo.DefaultProduceTopic(topic), kgo.RecordDeliveryTimeout(time.Minute))
	lines := split(text())
	n := 0
	wg.Go(func() {
		for ; n < len(lines); n++ {
			rs := cl.ProduceSync(t.Context(), &kgo.Record{Value: lines[n]})
			if err := rs.FirstErr(); err != nil {
				got.errs = append(got.errs, err)
				return
			}
			got.offsets = append(got.offsets, rs[0].Record.Offset)
			select {
			case <-quit:
				n++
				return
			default:
			}
		}
	})
	c.grows(topic)
	second := newBroker(t, old.dir, old.sets...)
	second.launch()
	began := time.Now()
	select {
	case <-old.done:
	case <-time.After(startTime):
		t.Fatalf("the first process still runs %v after the second was started", startTime)
	}
	if code := old.cmd.ProcessState.ExitCode(); code != exitFenced {
		t.Errorf("the first process has ended with %v, want code %d\n%s", old.cmd.ProcessState, exitFenced, tail(old.log.Bytes(), 4096))
	}
	t.Logf("the first process ended %v after the start of the second", time.Since(began).Round(time.Millisecond))
	c.brokers[first-1] = second
	c.asked[first-1] = c.newClient(kgo.SeedBrokers(second.addr))
	c.settled()
	c.lead(first, topic)
	c.grows(topic)
	close(quit)
	wg.Wait()
	for _, err := range got.errs {
		t.Fatal(err)
	}
	have := consume(t, second.addr)
	wantAcked(t, got, have, lines)
	wantLines(t, have, lines[:n])
}

// TestNoController has the controller stand still, so that there is none until its lease is
// over, and then kills the next. What others lead is written and read meanwhile as before,
// and five seconds later at most there is another that makes a topic: on a quiet machine, where
// the lease takes 4.2 of them at most. One that does other things besides may spoil that once or twice.
func TestNoController(t *testing.T) {
	need(t)
	c := startCluster(t)
	c.create(topic, 1, nil)
	through := writeAndRead(c)
	for _, loss := range []controllerLoss{
		{"SIGSTOP", (*broker).pause, (*broker).resume, 50},
		{"kill -9", (*broker).kill, (*broker).start, 1},
	} {
		for try := 1; ; try++ {
			why := c.withoutController(loss, through, fmt.Sprint("later-", try))
			if why == "" {
				break
			}
			if try == 3 {
				t.Fatal(why)
			}
			t.Logf("once more: %s", why)
		}
	}
	if m := c.metadata(1, "later-1"); m == nil || m.Topics[0].ErrorCode != 0 {
		t.Errorf("the topic that was made: %+v", m)
	}
}

type controllerLoss struct {
	name      string
	do, after func(*broker)
	least     int // records meanwhile
}

// withoutController has the controller be lost, and tells what took too long.
func (c *cluster) withoutController(loss controllerLoss, through func(), later string) string {
	t := c.t
	t.Helper()
	gone := c.aController(1)
	leader := c.other(gone)
	c.lead(leader, topic)
	through()
	loss.do(c.broker(gone))
	began := time.Now()
	records, longest := 0, time.Duration(0)
	for now := gone; now == gone || now == 0; now = c.controller(leader) {
		at := time.Now()
		through()
		longest = max(longest, time.Since(at))
		if records++; time.Since(began) > startTime {
			t.Fatalf("%s: no controller within %v", loss.name, startTime)
		}
	}
	elected := time.Since(began)
	if loss.name == "kill -9" { // one that stands still may be given a partition, and is waited for
		c.create(later, 1, nil)
	}
	took, most := time.Since(began), 5*time.Second
	t.Logf("%s: %d records written and read without a controller, each within %v; another after %v, a topic after %v",
		loss.name, records, longest.Round(time.Millisecond), elected.Round(time.Millisecond), took.Round(time.Millisecond))
	loss.after(c.broker(gone))
	c.settled()
	switch {
	case records < loss.least:
		return fmt.Sprintf("%s: only %d records were written while there was no controller", loss.name, records)
	case took > most:
		return fmt.Sprintf("%s: the next controller acts after %v, want %v", loss.name, took, most)
	}
	return ""
}

// writeAndRead returns what writes a record and reads it.
func writeAndRead(c *cluster) func() {
	t := c.t
	p := c.newClient(kgo.DefaultProduceTopic(topic))
	r := c.newClient(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	n := 0
	return func() {
		t.Helper()
		n++
		if err := p.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(n))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for {
			fs := r.PollFetches(t.Context())
			if err := fs.Err(); err != nil {
				t.Fatal(err)
			}
			if records := fs.Records(); len(records) > 0 {
				if got := string(records[len(records)-1].Value); got != fmt.Sprint(n) {
					t.Fatalf("read %q, want %d", got, n)
				}
				return
			}
		}
	}
}
