package traffic

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
)

// leadersOf are those of all partitions that there are, with their epochs.
func leadersOf(ctx context.Context, cl *kgo.Client) (map[place]leader, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	all := map[place]leader{}
	eachPartition(resp, func(topic string, p *kmsg.MetadataResponseTopicPartition) {
		all[place{topic: topic, index: p.Partition}] = leader{p.Leader, p.LeaderEpoch}
	})
	return all, nil
}

// Epochs is the sum of the leader epochs of the topics that last, each of which grows by one when
// a partition is given to another broker, or to the same anew.
func (e *Env) Epochs(ctx context.Context) (sum int64, err error) {
	cl, err := e.client()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	all, err := leadersOf(ctx, cl)
	for _, at := range e.places(nil) {
		at.part = 0
		sum += int64(all[at].epoch)
	}
	return sum, err
}

// AwaitEven returns when each of the brokers leads as many of all partitions as any other, within
// one.
func (e *Env) AwaitEven(ctx context.Context, brokers []int32) error {
	cl, err := e.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	for {
		all, err := leadersOf(ctx, cl)
		if err == nil {
			err = uneven(all, brokers)
		}
		if err == nil {
			return nil
		}
		if !sleep.For(ctx, askMost) {
			return fmt.Errorf("leaders are not evenly spread: %w", err)
		}
	}
}

// uneven is an error where the brokers do not lead as many, within one.
func uneven(all map[place]leader, brokers []int32) error {
	count := map[int32]int{}
	for _, id := range brokers {
		count[id] = 0
	}
	for at, l := range all {
		if _, ok := count[l.node]; !ok {
			return fmt.Errorf("partition %s/%d is led by %d", at.topic, at.index, l.node)
		}
		count[l.node]++
	}
	for _, n := range count {
		for _, m := range count {
			if n > m+1 {
				return fmt.Errorf("partitions by broker: %v", count)
			}
		}
	}
	return nil
}
