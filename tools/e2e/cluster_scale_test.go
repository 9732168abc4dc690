package e2e

import (
	"context"
	"encoding/binary"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// load writes numbers to each partition of a topic, one after the other, and knows the longest
// time in which one of them acknowledged nothing.
type load struct {
	stop   context.CancelFunc
	wg     sync.WaitGroup
	counts []atomic.Int64
	gap    atomic.Int64 // ns
}

func startLoad(c *cluster, topic string) *load {
	var m *kmsg.MetadataResponse
	c.await("the topic is known", func() bool {
		m = c.metadata(1, topic)
		return m != nil && m.Topics[0].ErrorCode == 0
	})
	ctx, stop := context.WithCancel(c.t.Context())
	l := &load{stop: stop, counts: make([]atomic.Int64, len(m.Topics[0].Partitions))}
	cl := c.newClient(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	for p := range l.counts {
		l.wg.Go(func() {
			for last := time.Now(); ctx.Err() == nil; last = time.Now() {
				n := l.counts[p].Load()
				r := &kgo.Record{Topic: topic, Partition: int32(p), Value: binary.BigEndian.AppendUint64(nil, uint64(n))}
				if err := cl.ProduceSync(c.t.Context(), r).FirstErr(); err != nil {
					c.t.Errorf("partition %d, number %d: %v", p, n, err)
					return
				}
				l.counts[p].Store(n + 1)
				for was, took := l.gap.Load(), int64(time.Since(last)); took > was && !l.gap.CompareAndSwap(was, took); was = l.gap.Load() {
				}
			}
		})
	}
	return l
}

// longest is the longest gap since it was last asked for.
func (l *load) longest() time.Duration { return time.Duration(l.gap.Swap(0)).Round(time.Millisecond) }

// end ends the writing, and wants each number once and in order.
func (l *load) end(c *cluster, topic string) {
	c.t.Helper()
	l.stop()
	l.wg.Wait()
	cl := c.newClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	next, left := make([]int64, len(l.counts)), int64(0)
	for p := range l.counts {
		left += l.counts[p].Load()
	}
	for left > 0 && ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if n := int64(binary.BigEndian.Uint64(r.Value)); n != next[r.Partition] || r.Offset != n {
				c.t.Errorf("partition %d: number %d at offset %d, where %d was to be", r.Partition, n, r.Offset, next[r.Partition])
			}
			next[r.Partition]++
			left--
		})
	}
	if left > 0 {
		c.t.Errorf("%d numbers are missing", left)
	}
}

// TestBrokersComeAndGo has a cluster of three grow to five under load, and shrink again by two
// brokers that are told to stop at once, as a StatefulSet does it. The newcomers are given their
// share; what they led is acknowledged all the time, by others in the end; and they can be
// forgotten.
func TestBrokersComeAndGo(t *testing.T) {
	need(t)
	const topic, partitions = "numbers", 20
	c := startCluster(t)
	c.create(topic, partitions, nil)
	l := startLoad(c, topic)
	leads := func(id int32) (n int) {
		if m := c.metadata(1, topic); m != nil {
			for _, p := range m.Topics[0].Partitions {
				if p.Leader == id {
					n++
				}
			}
		}
		return n
	}

	var more []*broker
	for id := 4; id <= 5; id++ {
		b := newBroker(t, c.brokers[0].dir, "node.id="+strconv.Itoa(id))
		b.launch()
		more = append(more, b)
	}
	c.await("five brokers lead four partitions each", func() bool { return leads(4) == 4 && leads(5) == 4 && leads(1) == 4 })
	t.Logf("while two came: %v", l.longest())

	for _, b := range more {
		if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range more {
		select {
		case <-b.done:
		case <-time.After(time.Minute):
			t.Fatal("a broker has not ended a minute after SIGTERM")
		}
		if code := b.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("a broker that was told to stop ended with %d", code)
		}
	}
	c.await("three brokers lead everything", func() bool { return leads(1)+leads(2)+leads(3) == partitions })
	t.Logf("while two went at once: %v", l.longest())

	known := func() (ids []int32) {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.Version, req.IncludeFencedBrokers = 2, true
		resp, err := c.ask(1, req)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range resp.(*kmsg.DescribeClusterResponse).Brokers {
			ids = append(ids, b.NodeID)
		}
		return ids
	}
	c.await("those that went are known as fenced", func() bool { return len(known()) == 5 && c.known(1) == 3 })
	for id := int32(4); id <= 5; id++ {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		resp, err := c.ask(1, req)
		if err != nil {
			t.Fatal(err)
		}
		code(t, "unregister", resp.(*kmsg.UnregisterBrokerResponse).ErrorCode, nil)
	}
	c.await("they are forgotten", func() bool { return len(known()) == 3 })
	l.end(c, topic)
}
