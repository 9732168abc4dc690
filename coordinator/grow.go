package coordinator

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// CreatePartitions gives a topic count partitions in all and returns when the new
// ones are open. With validateOnly it changes nothing.
//
// Errors wrap kerr.UnknownTopicOrPartition, InvalidPartitions unless count is an
// increase, KafkaStorageError, NotController when the broker ends, and
// RequestTimedOut with ctx, when the partitions may be made nevertheless.
func (b *Broker) CreatePartitions(ctx context.Context, id projections.TopicID, count int32, validateOnly bool) error {
	from, err := canGrow(b.View(), id, count)
	if err != nil || validateOnly {
		return err
	}
	name := b.nameOf(id)
	if err := b.await(ctx, "create partitions of "+name, func() error { return b.grow(b.run, id, count) }); err != nil {
		return err
	}
	if err := b.awaitServed(ctx, id, from); err != nil {
		return clientError(fmt.Errorf("partitions of %s are made, but not open: %w", name, err))
	}
	return nil
}

// canGrow returns how many partitions the topic has, if count is more.
func canGrow(c *projections.Cluster, id projections.TopicID, count int32) (now int32, err error) {
	t := c.TopicByID(id)
	if t == nil {
		return 0, fmt.Errorf("%w: topic %s", kerr.UnknownTopicOrPartition, id)
	}
	now = int32(len(t.Partitions))
	switch {
	case count == now:
		return now, fmt.Errorf("%w: %s has %d partitions already", kerr.InvalidPartitions, t.Name, now)
	case count < now:
		return now, fmt.Errorf("%w: %s has %d partitions, and %d would be fewer", kerr.InvalidPartitions, t.Name, now, count)
	case count > projections.MaxPartitions:
		return now, fmt.Errorf("%w: %d partitions for %s; a topic has at most %d", kerr.InvalidPartitions, count, t.Name, projections.MaxPartitions)
	}
	return now, nil
}

// grow builds the directories, which nobody knows, then publishes. What it built
// stays when the publish is refused: it is the topic's, no leader has touched it,
// and the next growth takes it.
func (b *Broker) grow(ctx context.Context, id projections.TopicID, count int32) error {
	from, err := canGrow(b.View(), id, count)
	if err != nil {
		return err
	}
	made, err := b.space.roomForPartitions(count - from)
	if err != nil {
		return err
	}
	defer made()
	name := b.nameOf(id)
	b.sweepTopicDir(id)
	if err := b.buildPartitions(ctx, id, name, from, count); err != nil {
		if _, gone := canGrow(b.View(), id, count); gone != nil {
			return gone // deleted meanwhile, with the directory
		}
		return err
	}
	mine := false
	decide := func(c *projections.Cluster) ([]metalog.Event, error) {
		from, err := canGrow(c, id, count)
		if mine && from == count {
			return nil, nil // an earlier epoch of the stream had it published
		}
		if err != nil {
			return nil, err
		}
		mine = true
		return added(id, name, from, count, spread(c, id, count-from, b.mayLead(c)))
	}
	if _, err := b.publish(ctx, fmt.Sprintf("topic %s grown to %d partitions", name, count), decide); err != nil {
		return err
	}
	b.log.Info("partitions created", "topic", name, "id", id, "from", from, "to", count)
	return nil
}

func added(id projections.TopicID, name string, from, count int32, leaders []int32) ([]metalog.Event, error) {
	fs := []projections.Fact{&projections.PartitionsAdded{TopicID: id, Topic: name, Partitions: count}}
	for i := from; i < count; i++ {
		fs = append(fs, &projections.PartitionLeaderChanged{TopicID: id, Partition: i, Leader: leaders[i-from], Epoch: 1})
	}
	return projections.NewEvents(fs...)
}

// buildPartitions builds several at a time: each is a handful of fsyncs.
func (b *Broker) buildPartitions(ctx context.Context, id projections.TopicID, name string, from, to int32) error {
	session, err := b.leadingSession()
	if err != nil {
		return err
	}
	now := b.opt.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i := from; i < to; i++ {
		g.Go(func() error {
			return attempts(ctx, func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return partition.BuildPartition(b.v, session, id, name, i, now)
			})
		})
	}
	return g.Wait()
}

// sweepTopicDir removes what a sealed session had begun to build in a topic's
// directory. What cannot be removed goes with the topic.
func (b *Broker) sweepTopicDir(id projections.TopicID) {
	dir := partition.TopicDir(id)
	es, err := b.v.ListFresh(dir)
	if err != nil {
		return // building says so, too
	}
	for _, e := range es {
		if b.orphaned(e.Name) {
			if err := b.removeLeftover(dir, e); err != nil {
				b.log.Info("leftover is not removed", "dir", dir, "name", e.Name, "err", err)
			}
		}
	}
}
