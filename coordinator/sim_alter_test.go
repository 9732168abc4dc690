package coordinator

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"kaas.dev/kaas/projections"
)

// simList is a configuration to which each change adds an item of its own, so that
// a lost one is seen.
const simList = "leader.replication.throttled.replicas"

func pick(b *Broker, rng *rand.Rand) *projections.Topic {
	if ts := b.View().Topics(); len(ts) > 0 {
		return ts[rng.IntN(len(ts))]
	}
	return nil
}

// addItem is an edit; on its own result it changes nothing.
func addItem(item string) ConfigEdit {
	return func(_ *projections.Cluster, set map[string]string) (map[string]string, error) {
		next := maps.Clone(set)
		if next == nil {
			next = map[string]string{}
		}
		items := strings.FieldsFunc(next[simList], func(r rune) bool { return r == ',' })
		if !slices.Contains(items, item) {
			next[simList] = strings.Join(append(items, item), ",")
		}
		return next, nil
	}
}

func (w *simWorld) alter(ctx context.Context, b *Broker, rng *rand.Rand) {
	topic := pick(b, rng)
	if topic == nil {
		return
	}
	item := fmt.Sprintf("%d:1", w.names.Add(1))
	err := b.AlterTopicConfigs(ctx, topic.ID, addItem(item), false)
	w.note(func() {
		if err != nil {
			return
		}
		w.altered++
		w.added[topic.ID] = append(w.added[topic.ID], item)
		if got := b.View().TopicByID(topic.ID); got != nil && !slices.Contains(strings.Split(got.Configs[simList], ","), item) {
			w.violate("%s was altered with %s and shows %v", topic.Name, item, got.Configs)
		}
	})
}

func (w *simWorld) grow(ctx context.Context, b *Broker, rng *rand.Rand) {
	topic := pick(b, rng)
	if topic == nil || len(topic.Partitions) > 6 {
		return
	}
	count := int32(len(topic.Partitions)) + 1 + rng.Int32N(2)
	err := b.CreatePartitions(ctx, topic.ID, count, false)
	w.note(func() {
		if err == nil {
			w.grown++
			w.sizes[topic.ID] = max(w.sizes[topic.ID], count)
		}
	})
}

func (w *simWorld) compareTopic(topic *projections.Topic) error {
	items := strings.Split(topic.Configs[simList], ",")
	for _, item := range w.added[topic.ID] {
		if !slices.Contains(items, item) {
			return fmt.Errorf("%s was altered with %s and has %v", topic.Name, item, items)
		}
	}
	if n := int32(len(topic.Partitions)); n < w.sizes[topic.ID] {
		return fmt.Errorf("%s was grown to %d partitions and has %d", topic.Name, w.sizes[topic.ID], n)
	}
	return nil
}
