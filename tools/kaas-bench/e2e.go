package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// e2eLoad produces at a rate and consumes the same records. One process does
// both, so one clock times them.
type e2eLoad struct {
	produceLoad
	Consumers int
}

func (l *e2eLoad) run(ctx context.Context) (*result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	if l.Size < stampBytes || l.Rate <= 0 || l.Consumers < 1 || l.Records != 0 {
		return nil, fmt.Errorf("e2e needs a rate, a time, a consumer, and records of %d bytes or more", stampBytes)
	}
	l.stamped = true
	acks, err := newMeter(l.Producers, kmsg.Produce.Int16(), &target{}, nil)
	if err != nil {
		return nil, err
	}
	var ends map[int32]int64
	err = l.admin(ctx, func(ctx context.Context, adm *kadm.Client) (err error) {
		ends, err = l.ends(ctx, adm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l.both(ctx, acks, ends)
}

// both measures consumers and producers at once.
func (l *e2eLoad) both(ctx context.Context, acks *meter, ends map[int32]int64) (*result, error) {
	all := map[int32]int64{}
	for p := range ends {
		all[p] = 1 // split leaves out what is empty, and nothing is to be left out
	}
	parts := split(all, l.Consumers)
	reads, err := newMeter(len(parts), kmsg.Fetch.Int16(), &l.target, l.progress)
	if err != nil {
		return nil, err
	}
	defer reads.close()
	if err := errors.Join(acks.ready(l.window), reads.ready(l.window)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i, part := range parts {
		cl, err := l.client(kgo.WithHooks(reads.lanes[i]), kgo.ConsumePartitions(from(l.Topic, part, ends)))
		if err != nil {
			return nil, err
		}
		wg.Go(func() {
			defer cl.Close()
			receive(ctx, cl, reads.lanes[i])
		})
	}
	running, err := l.start(ctx, acks.lanes)
	if err != nil {
		return nil, err
	}
	defer running.stop()
	return l.figures(ctx, acks, reads)
}

func (l *e2eLoad) figures(ctx context.Context, acks, reads *meter) (*result, error) {
	var acked *result
	var ackErr error
	var wg sync.WaitGroup
	wg.Go(func() { acked, ackErr = acks.measure(ctx, l.window, nil) })
	r, err := reads.measure(ctx, l.window, nil)
	wg.Wait()
	if err := errors.Join(err, ackErr); err != nil {
		return nil, err
	}
	r.Load, r.AckLatency, r.RequestLatency = "end to end: "+l.String(), acked.Latency, acked.RequestLatency
	return r, nil
}

// from starts each partition at its end.
func from(topic string, part, ends map[int32]int64) map[string]map[int32]kgo.Offset {
	at := map[int32]kgo.Offset{}
	for p := range part {
		at[p] = kgo.NewOffset().At(ends[p])
	}
	return map[string]map[int32]kgo.Offset{topic: at}
}

// receive times records by their stamps until ctx ends.
func receive(ctx context.Context, cl *kgo.Client, l *lane) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		if err := fetchError(fetches); err != nil {
			if ctx.Err() == nil {
				l.fail(err)
			}
			return
		}
		now := time.Now()
		fetches.EachRecord(func(r *kgo.Record) {
			if due, ok := stampOf(r.Value); ok {
				l.took(now.Sub(due), len(r.Value))
			}
		})
	}
}
