package coordinator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// ConfigEdit returns the configuration that a resource is to have, given the cluster
// and what is set for the resource now; or an error that refuses. It changes neither,
// may run more than once, and must come to the same when it runs on its own result.
type ConfigEdit func(view *projections.Cluster, set map[string]string) (map[string]string, error)

// AlterTopicConfigs changes what is set for a topic and returns when that is
// committed and the topic's partitions here go by it. With validateOnly it changes
// nothing. The edit runs at the point that orders all changes.
//
// Errors are the edit's, or wrap kerr.UnknownTopicOrPartition, InvalidConfig,
// NotController when the broker ends, KafkaStorageError, and RequestTimedOut with
// ctx, when the change may be made nevertheless.
func (b *Broker) AlterTopicConfigs(ctx context.Context, id projections.TopicID, edit ConfigEdit, validateOnly bool) error {
	return b.alter(ctx, "topic "+b.nameOf(id), validateOnly, func(c *projections.Cluster) (*projections.ConfigChanged, error) {
		t := c.TopicByID(id)
		if t == nil {
			return nil, fmt.Errorf("%w: topic %s", kerr.UnknownTopicOrPartition, id)
		}
		next, err := edit(c, t.Configs)
		if err != nil {
			return nil, err
		}
		if err := projections.ValidateTopicConfigs(next); err != nil {
			return nil, err
		}
		return changed(&projections.ConfigChanged{Resource: projections.ResourceTopic, Name: t.Name, TopicID: id}, t.Configs, next), nil
	})
}

// AlterBrokerConfigs does the same for a registered broker, by its ID in decimal, or for
// all brokers, by "". What is set for brokers is the edit's to judge.
func (b *Broker) AlterBrokerConfigs(ctx context.Context, name string, edit ConfigEdit, validateOnly bool) error {
	if id, err := strconv.ParseInt(name, 10, 32); name != "" {
		if _, there := b.View().Broker(int32(id)); err != nil || !there || name != strconv.Itoa(int(id)) {
			return fmt.Errorf("%w: %.100q is no broker of this cluster", kerr.InvalidRequest, name)
		}
	}
	return b.alter(ctx, fmt.Sprintf("broker %q", name), validateOnly, func(c *projections.Cluster) (*projections.ConfigChanged, error) {
		set := c.BrokerConfigs(name)
		next, err := edit(c, set)
		if err != nil {
			return nil, err
		}
		return changed(&projections.ConfigChanged{Resource: projections.ResourceBroker, Name: name}, set, next), nil
	})
}

// AlterGroupConfigs does the same for a consumer group, whether or not it is there. What a
// group's settings must be to the brokers' is the edit's to judge.
func (b *Broker) AlterGroupConfigs(ctx context.Context, group string, edit ConfigEdit, validateOnly bool) error {
	if group == "" {
		return fmt.Errorf("%w: groups have no common configuration", kerr.InvalidRequest)
	}
	return b.alter(ctx, fmt.Sprintf("group %q", group), validateOnly, func(c *projections.Cluster) (*projections.ConfigChanged, error) {
		set := c.GroupConfig(group)
		next, err := edit(c, set)
		if err != nil {
			return nil, err
		}
		if err := projections.ValidateGroupConfig(next); err != nil {
			return nil, err
		}
		if len(set) == 0 && len(next) > 0 {
			if err := c.GroupConfigFits(); err != nil {
				return nil, err
			}
		}
		return changed(&projections.ConfigChanged{Resource: projections.ResourceGroup, Name: group}, set, next), nil
	})
}

// AlterClientMetrics does the same for a subscription to clients' metrics, by its name, which
// need not be there.
func (b *Broker) AlterClientMetrics(ctx context.Context, name string, edit ConfigEdit, validateOnly bool) error {
	if name == "" {
		return fmt.Errorf("%w: subscriptions have no common configuration", kerr.InvalidRequest)
	}
	return b.alter(ctx, fmt.Sprintf("client metrics %q", name), validateOnly, func(c *projections.Cluster) (*projections.ConfigChanged, error) {
		set := c.ClientMetrics(name)
		next, err := edit(c, set)
		if err != nil {
			return nil, err
		}
		if err := projections.ValidateClientMetrics(next); err != nil {
			return nil, err
		}
		if len(set) == 0 && len(next) > 0 {
			if err := c.ClientMetricsFit(); err != nil {
				return nil, err
			}
		}
		return changed(&projections.ConfigChanged{Resource: projections.ResourceClientMetrics, Name: name}, set, next), nil
	})
}

// changed fills in what next has other than set; nil if nothing.
func changed(e *projections.ConfigChanged, set, next map[string]string) *projections.ConfigChanged {
	for _, k := range slices.Sorted(maps.Keys(set)) {
		if _, ok := next[k]; !ok {
			e.Deleted = append(e.Deleted, k)
		}
	}
	for k, v := range next {
		if old, ok := set[k]; !ok || old != v {
			if e.Set == nil {
				e.Set = map[string]string{}
			}
			e.Set[k] = v
		}
	}
	if e.Set == nil && e.Deleted == nil {
		return nil
	}
	return e
}

// alter has what decide returns committed and shown, as work of the broker.
func (b *Broker) alter(ctx context.Context, what string, validateOnly bool, decide func(*projections.Cluster) (*projections.ConfigChanged, error)) error {
	if validateOnly {
		_, err := decide(b.View())
		return err
	}
	publish := func(c *projections.Cluster) ([]metalog.Event, error) {
		e, err := decide(c)
		if err != nil || e == nil {
			return nil, err
		}
		return projections.NewEvents(e)
	}
	return b.await(ctx, "alter "+what, func() error {
		_, err := b.publish(b.run, "configuration of "+what+" altered", publish)
		if err == nil {
			b.log.Info("configuration altered", "of", what)
		}
		return err
	})
}

// await runs work that belongs to the broker and waits for it, or for ctx.
func (b *Broker) await(ctx context.Context, what string, work func() error) error {
	done := make(chan error, 1)
	if !b.spawn(func() { done <- work() }) {
		return clientError(b.whyEnded())
	}
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return clientError(fmt.Errorf("%s: %w", what, err))
	}
	return nil
}

// reconfigureLocked has the partitions that are served, and the cleaner, go by the new
// view, where it changes their configuration, or how many partitions their topic has.
func (b *Broker) reconfigureLocked(old, view *projections.Cluster, slots map[projections.TopicID][]*slot) {
	all := !sameSettings(old, view, "") || !sameSettings(old, view, strconv.Itoa(int(b.opt.NodeID)))
	if all && b.cleaner != nil && b.opt.CleanerLive != nil {
		b.cleaner.Reconfigure(b.opt.CleanerLive(view))
	}
	for _, t := range view.Topics() {
		before := old.TopicByID(t.ID)
		if !all && (before == t || before == nil || maps.Equal(before.Configs, t.Configs) && len(before.Partitions) == len(t.Partitions)) {
			continue
		}
		cfg := b.partitionConfig(view, t, b.mu.shown)
		eachSlot(slots[t.ID], func(s *slot) {
			if p, ok := s.served().(*partition.Partition); ok {
				p.Reconfigure(cfg)
			}
		})
	}
}

func sameSettings(old, view *projections.Cluster, broker string) bool {
	return maps.Equal(old.BrokerConfigs(broker), view.BrokerConfigs(broker))
}
