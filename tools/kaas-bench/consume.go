package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// consumeLoad consumes a topic from its start to the end that it has when the
// load begins.
type consumeLoad struct {
	target
	Consumers int
	Duration  time.Duration // start again until so much time has gone; 0 is once
}

func (l *consumeLoad) run(ctx context.Context) (*result, error) {
	if l.Consumers < 1 {
		return nil, errors.New("there are no consumers")
	}
	var ends map[int32]int64
	err := l.admin(ctx, func(ctx context.Context, adm *kadm.Client) (err error) {
		ends, err = l.ends(ctx, adm)
		return err
	})
	if err != nil {
		return nil, err
	}
	parts := split(ends, l.Consumers)
	m, err := newMeter(len(parts), kmsg.Fetch.Int16(), &l.target, l.progress)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if len(parts) == 0 {
		return nil, fmt.Errorf("topic %s is empty", l.Topic)
	}
	r, err := l.consume(ctx, m, parts)
	if err != nil {
		return nil, err
	}
	r.Load = fmt.Sprintf("consume from the start, %d consumers, %d partitions", len(parts), len(ends))
	return r, nil
}

// consume runs the passes while m measures them.
func (l *consumeLoad) consume(ctx context.Context, m *meter, parts []map[int32]int64) (*result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := m.ready(window{}); err != nil {
		return nil, err
	}
	var g errgroup.Group
	done := make(chan struct{})
	g.Go(func() error {
		defer close(done)
		err := l.passes(ctx, m.lanes, parts)
		if err != nil {
			cancel(err)
		}
		return err
	})
	r, err := m.measure(ctx, window{}, done)
	cancel(nil)
	return r, errors.Join(err, g.Wait())
}

func (l *consumeLoad) passes(ctx context.Context, lanes []*lane, parts []map[int32]int64) error {
	for began := time.Now(); ; {
		var g errgroup.Group
		for i, part := range parts {
			g.Go(func() error { return l.pass(ctx, lanes[i], part) })
		}
		if err := g.Wait(); err != nil || time.Since(began) >= l.Duration {
			return err
		}
	}
}

// pass consumes the partitions of one consumer up to their ends.
func (l *consumeLoad) pass(ctx context.Context, lane *lane, ends map[int32]int64) error {
	cl, err := l.client(kgo.WithHooks(lane), kgo.ConsumePartitions(offsets(l.Topic, ends, kgo.NewOffset().AtStart())))
	if err != nil {
		return err
	}
	defer cl.Close()
	left := len(ends)
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetchError(fetches); err != nil {
			return fmt.Errorf("fetch of topic %s: %w", l.Topic, err)
		}
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			n := len(p.Records)
			if n == 0 {
				return
			}
			bytes := 0
			for _, r := range p.Records {
				bytes += len(r.Value)
			}
			lane.got(n, bytes)
			end := ends[p.Partition]
			if first, last := p.Records[0].Offset, p.Records[n-1].Offset; first < end && last >= end-1 {
				left--
			}
		})
	}
	return nil
}

// fetchError is the first error of a poll, if any.
func fetchError(fetches kgo.Fetches) (err error) {
	fetches.EachError(func(_ string, _ int32, e error) {
		if err == nil {
			err = e
		}
	})
	return err
}

func offsets(topic string, partitions map[int32]int64, at kgo.Offset) map[string]map[int32]kgo.Offset {
	from := map[int32]kgo.Offset{}
	for p := range partitions {
		from[p] = at
	}
	return map[string]map[int32]kgo.Offset{topic: from}
}

// split deals the partitions that hold anything out to at most n consumers.
func split(ends map[int32]int64, n int) []map[int32]int64 {
	var partitions []int32
	for p, end := range ends {
		if end > 0 {
			partitions = append(partitions, p)
		}
	}
	slices.Sort(partitions)
	parts := make([]map[int32]int64, min(n, len(partitions)))
	for i := range parts {
		parts[i] = map[int32]int64{}
	}
	for i, p := range partitions {
		parts[i%len(parts)][p] = ends[p]
	}
	return parts
}
