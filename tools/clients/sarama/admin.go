package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/IBM/sarama"

	"kaas.dev/kaas/tools/clients/scenario"
)

// admin gives c what an admin client can do.
func (s *client) admin(c *scenario.Client) {
	c.CreateTopic = func(_ context.Context, topic string, partitions int, configs map[string]string) error {
		set := map[string]*string{}
		for k, v := range configs {
			set[k] = &v
		}
		return s.adm.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: set}, false)
	}
	c.DeleteTopic = func(_ context.Context, topic string) error { return s.adm.DeleteTopic(topic) }
	c.Partitions = func(_ context.Context, topic string) (int, error) {
		ts, err := s.adm.DescribeTopics([]string{topic})
		if err != nil {
			return 0, err
		}
		return len(ts[0].Partitions), kerror(ts[0].Err)
	}
	c.AddPartitions = func(_ context.Context, topic string, total int) error {
		return s.adm.CreatePartitions(topic, int32(total), nil, false)
	}
	c.Offset = func(_ context.Context, topic string, partition int32, at int64) (int64, error) {
		os, err := s.adm.ListOffsets(map[string]map[int32]int64{topic: {partition: at}}, nil)
		if err != nil {
			return 0, err
		}
		o := os[topic][partition]
		if errors.Is(o.Err, sarama.ErrNoError) {
			o.Err = nil
		}
		return o.Offset, o.Err
	}
	c.Config = func(_ context.Context, topic, name string) (string, bool, error) {
		rs, err := s.adm.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}}}, sarama.DescribeConfigsOptions{})
		if err != nil {
			return "", false, err
		}
		if err := kerror(rs[0].ErrorCode); err != nil || len(rs[0].Configs) != 1 {
			return "", false, fmt.Errorf("%d entries: %w", len(rs[0].Configs), err)
		}
		e := rs[0].Configs[0]
		return e.Value, e.Source == sarama.SourceTopic, nil
	}
	c.SetConfig = func(_ context.Context, topic, name, value string) error {
		set := map[string]sarama.IncrementalAlterConfigsEntry{name: {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}}
		return s.adm.IncrementalAlterConfig(sarama.TopicResource, topic, set, false)
	}
	c.DeleteBefore = func(_ context.Context, topic string, partition int32, offset int64) error {
		return s.adm.DeleteRecords(topic, map[int32]int64{partition: offset})
	}
	s.groups(c)
}

func (s *client) groups(c *scenario.Client) {
	c.Groups = func(context.Context) ([]string, error) {
		gs, err := s.adm.ListConsumerGroups()
		return slices.Collect(maps.Keys(gs)), err
	}
	c.GroupState = func(_ context.Context, group string) (string, int, error) {
		gs, err := s.adm.DescribeConsumerGroups([]string{group})
		if err != nil {
			return "", 0, err
		}
		return gs[0].State, len(gs[0].Members), kerror(gs[0].Err)
	}
	c.Committed = func(_ context.Context, group, topic string) (map[int32]int64, error) {
		r, err := s.adm.ListConsumerGroupOffsets(group, nil)
		if err != nil {
			return nil, err
		}
		out := map[int32]int64{}
		for p, b := range r.Blocks[topic] {
			out[p] = b.Offset
		}
		return out, kerror(r.Err)
	}
	c.SetCommitted = func(_ context.Context, group, topic string, offsets map[int32]int64) error {
		os := map[int32]sarama.OffsetAndMetadata{}
		for p, at := range offsets {
			os[p] = sarama.OffsetAndMetadata{Offset: at, LeaderEpoch: -1}
		}
		_, err := s.adm.AlterConsumerGroupOffsets(group, map[string]map[int32]sarama.OffsetAndMetadata{topic: os}, nil)
		return err
	}
	c.DeleteOffset = func(_ context.Context, group, topic string, partition int32) error {
		return s.adm.DeleteConsumerGroupOffset(group, topic, partition)
	}
	c.DeleteGroup = func(_ context.Context, group string) error { return s.adm.DeleteConsumerGroup(group) }
}

func kerror(e sarama.KError) error {
	if e == sarama.ErrNoError {
		return nil
	}
	return e
}
