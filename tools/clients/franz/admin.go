package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/clients/scenario"
)

// admin gives c what an admin client can do.
func (f *franz) admin(c *scenario.Client) {
	c.CreateTopic = func(ctx context.Context, topic string, partitions int, configs map[string]string) error {
		set := map[string]*string{}
		for k, v := range configs {
			set[k] = &v
		}
		_, err := f.adm.CreateTopic(ctx, int32(partitions), 1, set, topic)
		return err
	}
	c.DeleteTopic = func(ctx context.Context, topic string) error {
		_, err := f.adm.DeleteTopic(ctx, topic)
		return err
	}
	c.Partitions = func(ctx context.Context, topic string) (int, error) {
		ts, err := f.adm.ListTopics(ctx, topic)
		if err != nil {
			return 0, err
		}
		return len(ts[topic].Partitions), ts[topic].Err
	}
	c.AddPartitions = func(ctx context.Context, topic string, total int) error {
		rs, err := f.adm.UpdatePartitions(ctx, total, topic)
		if err != nil {
			return err
		}
		return rs.Error()
	}
	c.Offset = f.offset
	c.Config = f.config
	c.SetConfig = func(ctx context.Context, topic, name, value string) error {
		rs, err := f.adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
		if err != nil {
			return err
		}
		return rs[0].Err
	}
	c.DeleteBefore = func(ctx context.Context, topic string, partition int32, offset int64) error {
		os := kadm.Offsets{}
		os.AddOffset(topic, partition, offset, -1)
		rs, err := f.adm.DeleteRecords(ctx, os)
		if err != nil {
			return err
		}
		return rs.Error()
	}
	f.groups(c)
}

func (f *franz) offset(ctx context.Context, topic string, partition int32, at int64) (int64, error) {
	list := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return f.adm.ListOffsetsAfterMilli(ctx, at, topics...)
	}
	switch at {
	case scenario.Earliest:
		list = f.adm.ListStartOffsets
	case scenario.Latest:
		list = f.adm.ListEndOffsets
	}
	os, err := list(ctx, topic)
	if err != nil {
		return 0, err
	}
	o, _ := os.Lookup(topic, partition)
	return o.Offset, o.Err
}

func (f *franz) config(ctx context.Context, topic, name string) (string, bool, error) {
	rs, err := f.adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", false, err
	}
	for _, c := range rs[0].Configs {
		if c.Key == name {
			return c.MaybeValue(), c.Source == kmsg.ConfigSourceDynamicTopicConfig, nil
		}
	}
	return "", false, rs[0].Err
}

func (f *franz) groups(c *scenario.Client) {
	c.Groups = func(ctx context.Context) ([]string, error) {
		gs, err := f.adm.ListGroups(ctx)
		return gs.Groups(), err
	}
	c.GroupState = func(ctx context.Context, group string) (string, int, error) {
		gs, err := f.adm.DescribeGroups(ctx, group)
		if err != nil {
			return "", 0, err
		}
		return gs[group].State, len(gs[group].Members), gs[group].Err
	}
	c.GroupType = func(ctx context.Context, group string) (string, error) {
		gs, err := f.adm.ListGroups(ctx)
		return gs[group].GroupType, err
	}
	c.Committed = func(ctx context.Context, group, topic string) (map[int32]int64, error) {
		rs, err := f.adm.FetchOffsets(ctx, group)
		out := map[int32]int64{}
		for p, o := range rs[topic] {
			out[p] = o.At
		}
		return out, err
	}
	c.SetCommitted = func(ctx context.Context, group, topic string, offsets map[int32]int64) error {
		os := kadm.Offsets{}
		for p, at := range offsets {
			os.AddOffset(topic, p, at, -1)
		}
		return f.adm.CommitAllOffsets(ctx, group, os)
	}
	c.DeleteOffset = func(ctx context.Context, group, topic string, partition int32) error {
		set := kadm.TopicsSet{}
		set.Add(topic, partition)
		rs, err := f.adm.DeleteOffsets(ctx, group, set)
		if err != nil {
			return err
		}
		return rs.Error()
	}
	c.DeleteGroup = func(ctx context.Context, group string) error {
		_, err := f.adm.DeleteGroup(ctx, group)
		return err
	}
}

// txnOffsets adds a group's offset to the transaction by requests of its own: kgo itself
// does it only for a member of the group.
func txnOffsets(ctx context.Context, cl *kgo.Client, group, topic string, partition int32, offset int64) error {
	id, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	txn := cl.OptValue(kgo.TransactionalID).(string)
	add := kmsg.NewAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = txn, id, epoch, group
	added, err := add.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(added.ErrorCode); err != nil {
		return err
	}
	req := kmsg.NewTxnOffsetCommitRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = txn, id, epoch, group
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	topics, err := kadm.NewClient(cl).ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	t.Topic, t.TopicID = topic, topics[topic].ID // the latter from version 6 on
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}
