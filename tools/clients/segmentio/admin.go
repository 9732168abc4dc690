package main

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"kaas.dev/kaas/tools/clients/scenario"
)

// admin gives c what an admin client can do.
func (s *client) admin(c *scenario.Client) {
	c.CreateTopic = func(ctx context.Context, topic string, partitions int, configs map[string]string) error {
		t := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
		for k, v := range configs {
			t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: k, ConfigValue: v})
		}
		r, err := s.adm.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{t}})
		if err != nil {
			return err
		}
		return r.Errors[topic]
	}
	c.DeleteTopic = func(ctx context.Context, topic string) error {
		r, err := s.adm.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		if err != nil {
			return err
		}
		return r.Errors[topic]
	}
	c.Partitions = func(ctx context.Context, topic string) (int, error) {
		r, err := s.adm.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
		if err != nil {
			return 0, err
		}
		return len(r.Topics[0].Partitions), r.Topics[0].Error
	}
	c.AddPartitions = func(ctx context.Context, topic string, total int) error {
		r, err := s.adm.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(total)}}})
		if err != nil {
			return err
		}
		return r.Errors[topic]
	}
	c.Offset = s.offset
	c.Config = func(ctx context.Context, topic, name string) (string, bool, error) {
		r, err := s.adm.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{name}},
		}})
		if err != nil {
			return "", false, err
		}
		all := r.Resources[0].ConfigEntries
		if len(all) != 1 {
			return "", false, fmt.Errorf("%d entries: %w", len(all), r.Resources[0].Error)
		}
		return all[0].ConfigValue, all[0].ConfigSource == 1, r.Resources[0].Error
	}
	c.SetConfig = func(ctx context.Context, topic, name, value string) error {
		r, err := s.adm.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}},
		}}})
		if err != nil {
			return err
		}
		return r.Resources[0].Error
	}
	s.groups(c)
}

func (s *client) offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	r, err := s.adm.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{
		topic: {{Partition: int(partition), Timestamp: at}},
	}})
	if err != nil {
		return 0, err
	}
	o := r.Topics[topic][0]
	switch at {
	case scenario.Earliest:
		return o.FirstOffset, o.Error
	case scenario.Latest:
		return o.LastOffset, o.Error
	}
	for offset := range o.Offsets {
		return offset, o.Error
	}
	return -1, o.Error
}

func (s *client) groups(c *scenario.Client) {
	c.Groups = func(ctx context.Context) ([]string, error) {
		r, err := s.adm.ListGroups(ctx, &kafka.ListGroupsRequest{})
		if err != nil {
			return nil, err
		}
		var out []string
		for _, g := range r.Groups {
			out = append(out, g.GroupID)
		}
		return out, r.Error
	}
	c.GroupState = func(ctx context.Context, group string) (string, int, error) {
		r, err := s.adm.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			return "", 0, err
		}
		g := r.Groups[0]
		return g.GroupState, len(g.Members), g.Error
	}
	c.Committed = func(ctx context.Context, group, topic string) (map[int32]int64, error) {
		r, err := s.adm.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2, 3}}})
		if err != nil {
			return nil, err
		}
		out := map[int32]int64{}
		for _, p := range r.Topics[topic] {
			if p.CommittedOffset >= 0 {
				out[int32(p.Partition)] = p.CommittedOffset
			}
		}
		return out, r.Error
	}
	c.SetCommitted = func(ctx context.Context, group, topic string, offsets map[int32]int64) error {
		var os []kafka.OffsetCommit
		for p, at := range offsets {
			os = append(os, kafka.OffsetCommit{Partition: int(p), Offset: at})
		}
		r, err := s.adm.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: os}})
		if err != nil {
			return err
		}
		return r.Topics[topic][0].Error
	}
	c.DeleteOffset = func(ctx context.Context, group, topic string, partition int32) error {
		r, err := s.adm.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {int(partition)}}})
		if err != nil {
			return err
		}
		if r.Error != nil {
			return r.Error
		}
		return r.Topics[topic][0].Error
	}
	c.DeleteGroup = func(ctx context.Context, group string) error {
		r, err := s.adm.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			return err
		}
		return r.Errors[group]
	}
}
