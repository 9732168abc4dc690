package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/kaas-check/traffic"
)

// acked are records that were acknowledged, by partition and offset.
type acked struct {
	sync.Mutex
	at map[int32]map[int64]string
}

func (a *acked) add(partition int32, offset int64, value string) {
	a.Lock()
	defer a.Unlock()
	if a.at == nil {
		a.at = map[int32]map[int64]string{}
	}
	if a.at[partition] == nil {
		a.at[partition] = map[int64]string{}
	}
	a.at[partition][offset] = value
}

func (a *acked) count() (n int) {
	a.Lock()
	defer a.Unlock()
	for _, p := range a.at {
		n += len(p)
	}
	return n
}

// produce sends a record to broker n, once, and returns its offset.
func (c *cluster) produce(n int32, topic string, partition int32, value string, timeout time.Duration) (int64, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, int32(timeout/time.Millisecond)
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, p.Partition, p.Records = topic, partition, traffic.Batch([]byte(value))
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, err := c.ask(int(n), req, timeout+5*time.Second)
	if err != nil {
		return -1, err
	}
	resp, ok := got.(*kmsg.ProduceResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return -1, fmt.Errorf("produce: %+v", got)
	}
	a := &resp.Topics[0].Partitions[0]
	return a.BaseOffset, kerr.ErrorForCode(a.ErrorCode)
}

// wantAll reads a topic from its start and wants every record that was acknowledged at its
// offset, and every offset once.
func (c *cluster) wantAll(topic string, keep *acked) {
	c.t.Helper()
	ctx := c.within(allow(time.Minute))
	cl := c.client(c.addrs(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ends, err := kadm.NewClient(c.cl).ListEndOffsets(ctx, topic)
	if err := errors.Join(err, ends.Error()); err != nil {
		c.t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) { left += o.Offset })
	found := map[int32]map[int64]string{}
	for left > 0 {
		fs := cl.PollFetches(ctx)
		if err := errors.Join(fs.Err0(), ctx.Err()); err != nil {
			c.t.Fatalf("%d records are missing: %v", left, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if found[r.Partition] == nil {
				found[r.Partition] = map[int64]string{}
			}
			if _, twice := found[r.Partition][r.Offset]; twice || r.Offset != int64(len(found[r.Partition])) {
				c.t.Errorf("%s/%d: offset %d comes after %d", topic, r.Partition, r.Offset, len(found[r.Partition])-1)
			}
			found[r.Partition][r.Offset] = string(r.Value)
			left--
		})
	}
	keep.Lock()
	defer keep.Unlock()
	for p, recs := range keep.at {
		for off, want := range recs {
			if got := found[p][off]; got != want {
				c.t.Errorf("%s/%d: offset %d has %q, acknowledged was %q", topic, p, off, got, want)
			}
		}
	}
}

// stream produces to partitions of a topic all the time, each by a goroutine that finds
// the leader anew after trouble, and notes when each was acknowledged.
type stream struct {
	c    *cluster
	keep acked
	stop chan struct{}
	wg   sync.WaitGroup
	mu   struct {
		sync.Mutex
		at map[int32][]time.Time
	}
}

func (c *cluster) stream(topic string, partitions int32) *stream {
	s := &stream{c: c, stop: make(chan struct{})}
	s.mu.at = map[int32][]time.Time{}
	for p := range partitions {
		s.wg.Go(func() { s.run(topic, p) })
	}
	c.t.Cleanup(s.end)
	return s
}

func (s *stream) run(topic string, p int32) {
	leader := int32(-1)
	for n := 0; ; n++ {
		select {
		case <-s.stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if leader < 1 {
			if leader, _ = s.c.newest(topic, p); leader < 1 {
				continue
			}
		}
		value := fmt.Sprintf("%d of partition %d", n, p)
		off, err := s.c.produce(leader, topic, p, value, time.Second)
		if err != nil {
			leader = -1
			continue
		}
		s.keep.add(p, off, value)
		s.mu.Lock()
		s.mu.at[p] = append(s.mu.at[p], time.Now())
		s.mu.Unlock()
	}
}

func (s *stream) end() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.wg.Wait()
}

// since reports whether every partition was acknowledged after t.
func (s *stream) since(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, at := range s.mu.at {
		if !at[len(at)-1].After(t) {
			return fmt.Errorf("partition %d: nothing since %v ago", p, time.Since(at[len(at)-1]).Round(time.Millisecond))
		}
	}
	return nil
}

// longest is the longest time between two acknowledgements of a partition, from one on
// that ended after t.
func (s *stream) longest(t time.Time) (most time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.mu.at {
		for i, end := range at {
			if i > 0 && end.After(t) {
				most = max(most, end.Sub(at[i-1]))
			}
		}
	}
	return most.Round(10 * time.Millisecond)
}

// others are the brokers but for one.
func others(n int32) []int {
	return slices.DeleteFunc([]int{1, 2, 3}, func(m int) bool { return m == int(n) })
}
