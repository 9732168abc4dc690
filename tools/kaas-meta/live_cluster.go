package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// dumpLive tells what the brokers say of the cluster.
func (a *app) dumpLive(cmd *cobra.Command) error {
	return a.live(cmd, func(ctx context.Context, cl brokers) error {
		c, err := liveCluster(ctx, cl)
		if err != nil {
			return err
		}
		if a.output == "table" {
			return objectRows(a.out, a.screen, c.objects())
		}
		return a.print(dumped{Stream: "cluster", State: c})
	})
}

func liveCluster(ctx context.Context, cl brokers) (clusterState, error) {
	c := clusterState{Brokers: []brokerState{}, Topics: []topicState{}}
	if err := c.liveBrokers(ctx, cl.raw); err != nil {
		return c, err
	}
	md, err := cl.Metadata(ctx)
	if err != nil {
		return c, err
	}
	for _, t := range md.Topics.Sorted() {
		if t.Err != nil {
			return c, fmt.Errorf("topic %s: %w", t.Topic, t.Err)
		}
		c.Topics = append(c.Topics, liveTopic(t))
	}
	return c, c.liveConfigs(ctx, cl)
}

// liveBrokers asks for the fenced brokers, too.
func (c *clusterState) liveBrokers(ctx context.Context, cl *kgo.Client) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("describe the cluster: %w", err)
	}
	c.ClusterID, c.Controller = resp.ClusterID, resp.ControllerID
	for _, b := range resp.Brokers {
		s := brokerState{ID: b.NodeID, Fenced: b.IsFenced, Listeners: []projections.Listener{{Host: b.Host, Port: b.Port}}}
		if b.Rack != nil {
			s.Rack = *b.Rack
		}
		c.Brokers = append(c.Brokers, s)
	}
	return nil
}

func liveTopic(t kadm.TopicDetail) topicState {
	s := topicState{Name: t.Topic, ID: projections.TopicID(t.ID).String()}
	for _, p := range t.Partitions.Sorted() {
		s.Partitions = append(s.Partitions, partitionState{Partition: int(p.Partition), Leader: p.Leader, Epoch: p.LeaderEpoch})
	}
	return s
}

// liveConfigs asks for what was set for topics and for all brokers. A topic that has gone
// meanwhile has nothing.
func (c *clusterState) liveConfigs(ctx context.Context, cl brokers) error {
	defaults, err := cl.DescribeBrokerConfigs(ctx)
	if err != nil {
		return fmt.Errorf("describe configurations: %w", err)
	}
	for _, r := range defaults {
		if r.Name == "" {
			c.BrokerConfigs = setConfigs(r, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
		}
	}
	names := make([]string, len(c.Topics))
	at := map[string]*topicState{}
	for i := range c.Topics {
		names[i] = c.Topics[i].Name
		at[names[i]] = &c.Topics[i]
	}
	if len(names) == 0 {
		return nil
	}
	described, err := cl.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return fmt.Errorf("describe configurations: %w", err)
	}
	for _, r := range described {
		if r.Err != nil && !errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("configuration of topic %s: %w", r.Name, r.Err)
		}
		if t := at[r.Name]; t != nil {
			t.Configs = setConfigs(r, kmsg.ConfigSourceDynamicTopicConfig)
		}
	}
	return nil
}

// setConfigs are those that were set at a source.
func setConfigs(r kadm.ResourceConfig, source kmsg.ConfigSource) map[string]string {
	var out map[string]string
	for _, c := range r.Configs {
		if c.Source != source || c.Value == nil {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[c.Key] = *c.Value
	}
	return out
}

// objects are what a table has of it.
func (c *clusterState) objects() []history.Object {
	out := []history.Object{{Kind: history.KindCluster, Name: c.ClusterID, Fields: []history.Field{{Name: "controller", Value: c.Controller}}}}
	for _, b := range c.Brokers {
		o := history.Object{Kind: history.KindBroker, Name: history.BrokerName(b.ID), Fields: []history.Field{{Name: "fenced", Value: b.Fenced}}}
		for _, l := range b.Listeners {
			o.Fields = append(o.Fields, history.Field{Name: "listener", Value: l.Host + ":" + strconv.Itoa(int(l.Port))})
		}
		out = append(out, o)
	}
	out = history.AppendConfig(out, "broker default", "", c.BrokerConfigs)
	for _, t := range c.Topics {
		out = append(out, history.Object{Kind: history.KindTopic, Name: t.Name, Fields: []history.Field{{Name: "id", Value: t.ID}, {Name: "partitions", Value: len(t.Partitions)}}})
		out = history.AppendConfig(out, "topic "+t.Name, t.Name, t.Configs)
		for _, p := range t.Partitions {
			out = append(out, history.Object{Kind: history.KindPartition, Name: history.PartitionName(t.Name, p.Partition),
				Fields: []history.Field{{Name: "leader", Value: p.Leader}, {Name: "leader_epoch", Value: p.Epoch}}})
		}
	}
	return out
}
