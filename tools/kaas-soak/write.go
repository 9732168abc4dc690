package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func (s *soak) makeTopics(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker.addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	for topic, own := range topicConfigs {
		configs := map[string]*string{}
		for _, set := range []map[string]string{commonConfigs, own} {
			for k, v := range set {
				configs[k] = &v
			}
		}
		if _, err := kadm.NewClient(cl).CreateTopic(ctx, s.plan.partitions, 1, configs, topic); err != nil {
			return fmt.Errorf("make %s: %w", topic, err)
		}
	}
	return nil
}

// write produces into a partition until ctx ends, then waits until all is
// acknowledged.
func (s *soak) write(ctx context.Context, p *part) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker.addr), kgo.AlwaysRetryEOF(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(2000), kgo.ProducerBatchMaxBytes(128<<10), kgo.StopProducerOnDataLossDetected(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
	if err != nil {
		return err
	}
	defer cl.Close()
	for n := int64(0); ctx.Err() == nil; n++ {
		cl.Produce(s.ctx, recordAt(p.topic, p.index, n), func(r *kgo.Record, err error) {
			if s.ctx.Err() != nil {
				return
			}
			if err != nil {
				s.violate("%s/%d: the idempotent producer gave up record %d: %v", p.topic, p.index, n, err)
				return
			}
			if want := p.ack(r.Offset); r.Offset != n || want != n {
				s.violate("%s/%d: record %d was acknowledged at offset %d as acknowledgement %d; all three had to be the same", p.topic, p.index, n, r.Offset, want)
			}
		})
	}
	return cl.Flush(s.ctx)
}

// watchProgress wants every partition to acknowledge something in any 30 s, and notes
// the longest time that one did not.
func (s *soak) watchProgress(ctx context.Context) {
	const most = 30 * time.Second
	since, before := make([]time.Time, len(s.parts)), make([]int64, len(s.parts))
	for i := range since {
		since[i] = time.Now()
	}
	every(ctx, 50*time.Millisecond, func() {
		for i, p := range s.parts {
			acked, _, _ := p.counts()
			if acked != before[i] {
				s.samples.silence(time.Since(since[i]))
				before[i], since[i] = acked, time.Now()
			}
			if time.Since(since[i]) > most {
				s.violate("%s/%d: nothing was acknowledged in %v; %d records were before", p.topic, p.index, most, acked)
				return
			}
		}
	})
}

// every calls do in each interval until ctx ends.
func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// together runs do for each partition that is wanted and waits for all.
func together(parts []*part, do func(*part)) {
	var wg sync.WaitGroup
	for _, p := range parts {
		wg.Go(func() { do(p) })
	}
	wg.Wait()
}
