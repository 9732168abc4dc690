package main

import (
	"context"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"kaas.dev/kaas/tools/clients/scenario"
)

// failed is an error where there is one: an Error stands in results also where all is well.
func failed(e kafka.Error) error {
	if e.Code() == kafka.ErrNoError {
		return nil
	}
	return e
}

// admin gives c what an admin client can do.
func (s *client) admin(c *scenario.Client) {
	c.CreateTopic = func(ctx context.Context, topic string, partitions int, configs map[string]string) error {
		r, err := s.adm.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1, Config: configs}})
		if err != nil {
			return err
		}
		return failed(r[0].Error)
	}
	c.DeleteTopic = func(ctx context.Context, topic string) error {
		r, err := s.adm.DeleteTopics(ctx, []string{topic})
		if err != nil {
			return err
		}
		return failed(r[0].Error)
	}
	c.Partitions = func(ctx context.Context, topic string) (int, error) {
		r, err := s.adm.DescribeTopics(ctx, kafka.NewTopicCollectionOfTopicNames([]string{topic}))
		if err != nil {
			return 0, err
		}
		t := r.TopicDescriptions[0]
		return len(t.Partitions), failed(t.Error)
	}
	c.AddPartitions = func(ctx context.Context, topic string, total int) error {
		r, err := s.adm.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: topic, IncreaseTo: total}})
		if err != nil {
			return err
		}
		return failed(r[0].Error)
	}
	c.Offset = s.offset
	c.Config = func(ctx context.Context, topic, name string) (string, bool, error) {
		r, err := s.adm.DescribeConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: topic}})
		if err != nil {
			return "", false, err
		}
		e, found := r[0].Config[name]
		if !found {
			return "", false, fmt.Errorf("no %s: %w", name, r[0].Error)
		}
		return e.Value, e.Source == kafka.ConfigSourceDynamicTopic, failed(r[0].Error)
	}
	c.SetConfig = func(ctx context.Context, topic, name, value string) error {
		r, err := s.adm.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{{
			Type: kafka.ResourceTopic, Name: topic,
			Config: []kafka.ConfigEntry{{Name: name, Value: value, IncrementalOperation: kafka.AlterConfigOpTypeSet}},
		}})
		if err != nil {
			return err
		}
		return failed(r[0].Error)
	}
	c.DeleteBefore = func(ctx context.Context, topic string, partition int32, offset int64) error {
		r, err := s.adm.DeleteRecords(ctx, []kafka.TopicPartition{{Topic: &topic, Partition: partition, Offset: kafka.Offset(offset)}})
		if err != nil {
			return err
		}
		return r.DeleteRecordsResults[0].TopicPartition.Error
	}
	s.groups(c)
}

func (s *client) offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	spec := kafka.NewOffsetSpecForTimestamp(at)
	switch at {
	case scenario.Earliest:
		spec = kafka.EarliestOffsetSpec
	case scenario.Latest:
		spec = kafka.LatestOffsetSpec
	}
	r, err := s.adm.ListOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetSpec{{Topic: &topic, Partition: partition}: spec})
	if err != nil {
		return 0, err
	}
	for _, o := range r.ResultInfos {
		return int64(o.Offset), failed(o.Error)
	}
	return 0, fmt.Errorf("nothing about %s-%d", topic, partition)
}

func (s *client) groups(c *scenario.Client) {
	c.Groups = func(ctx context.Context) ([]string, error) {
		r, err := s.adm.ListConsumerGroups(ctx)
		if err != nil {
			return nil, err
		}
		var out []string
		for _, g := range r.Valid {
			out = append(out, g.GroupID)
		}
		return out, scenario.First(r.Errors...)
	}
	describe := func(ctx context.Context, group string) (kafka.ConsumerGroupDescription, error) {
		r, err := s.adm.DescribeConsumerGroups(ctx, []string{group})
		if err != nil {
			return kafka.ConsumerGroupDescription{}, err
		}
		g := r.ConsumerGroupDescriptions[0]
		return g, failed(g.Error)
	}
	c.GroupState = func(ctx context.Context, group string) (string, int, error) {
		g, err := describe(ctx, group)
		return g.State.String(), len(g.Members), err
	}
	c.GroupType = func(ctx context.Context, group string) (string, error) {
		g, err := describe(ctx, group)
		return g.Type.String(), err
	}
	c.Committed = func(ctx context.Context, group, _ string) (map[int32]int64, error) {
		r, err := s.adm.ListConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{{Group: group}})
		if err != nil {
			return nil, err
		}
		out := map[int32]int64{}
		for _, p := range r.ConsumerGroupsTopicPartitions[0].Partitions {
			if p.Error != nil {
				return nil, p.Error
			}
			out[p.Partition] = int64(p.Offset)
		}
		return out, nil
	}
	c.SetCommitted = func(ctx context.Context, group, topic string, offsets map[int32]int64) error {
		g := kafka.ConsumerGroupTopicPartitions{Group: group}
		for p, at := range offsets {
			g.Partitions = append(g.Partitions, kafka.TopicPartition{Topic: &topic, Partition: p, Offset: kafka.Offset(at)})
		}
		r, err := s.adm.AlterConsumerGroupOffsets(ctx, []kafka.ConsumerGroupTopicPartitions{g})
		if err != nil {
			return err
		}
		return r.ConsumerGroupsTopicPartitions[0].Partitions[0].Error
	}
	c.DeleteGroup = func(ctx context.Context, group string) error {
		r, err := s.adm.DeleteConsumerGroups(ctx, []string{group})
		if err != nil {
			return err
		}
		return failed(r.ConsumerGroupResults[0].Error)
	}
}
