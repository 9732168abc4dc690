package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// keeperAdminOptions let an admin client try again as soon as producers do.
func keeperAdminOptions() []kgo.Opt {
	return []kgo.Opt{
		kgo.DialTimeout(time.Second), kgo.RetryBackoffFn(func(int) time.Duration { return keepRetry }),
		kgo.MetadataMinAge(keepMetadata),
	}
}

// changes makes topics through one broker after the other, and looks how soon the
// others' metadata shows each.
func (run *manyRun) changes(ctx context.Context, r *manyResult) error {
	var made, shown, after []time.Duration
	for i := range run.Changes {
		through := run.fleet.nodes[i%len(run.fleet.nodes)]
		c, err := run.change(ctx, through, fmt.Sprintf("change-%03d", i))
		if err != nil {
			return fmt.Errorf("topic made through broker %d: %w", through.id, err)
		}
		made = append(made, c.made)
		for _, s := range c.shown {
			shown, after = append(shown, s), append(after, max(s-c.made, 0))
		}
	}
	r.Made, r.Shown, r.After = distributionOf(made), distributionOf(shown), distributionOf(after)
	return nil
}

// change is what became of one topic, from when its making was asked for.
type change struct {
	made  time.Duration
	shown []time.Duration // one of each other broker
}

func (run *manyRun) change(ctx context.Context, through *node, topic string) (*change, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTime)
	defer cancel()
	c := &change{shown: make([]time.Duration, 0, len(run.fleet.nodes))}
	results := make(chan time.Duration, len(run.fleet.nodes))
	began := time.Now()
	var g errgroup.Group
	g.Go(func() error {
		err := run.create(ctx, through, topic)
		c.made = time.Since(began)
		return err
	})
	for _, n := range run.fleet.nodes {
		if n == through {
			continue
		}
		g.Go(func() error {
			until(ctx, time.Millisecond, func() bool { return knows(ctx, n, topic) })
			results <- time.Since(began)
			return context.Cause(ctx)
		})
	}
	err := g.Wait()
	close(results)
	for s := range results {
		c.shown = append(c.shown, s)
	}
	return c, err
}

// create has this very broker answer, whether it is the controller or not.
func (run *manyRun) create(ctx context.Context, through *node, topic string) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(adminTime / time.Millisecond)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions = topic, 1
	t.ReplicationFactor, _ = run.fleet.kind.topic()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, through.ask())
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return fmt.Errorf("%d topics in the answer", len(resp.Topics))
	}
	return kerr.ErrorForCode(resp.Topics[0].ErrorCode)
}

// knows says whether a broker's metadata shows a topic.
func knows(ctx context.Context, n *node, topic string) bool {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, n.ask())
	return err == nil && len(resp.Topics) == 1 && resp.Topics[0].ErrorCode == 0
}
