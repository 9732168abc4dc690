package coordinator

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// Partition returns a partition that this broker serves now. The error wraps
// kerr.NotLeaderForPartition while it is being opened or when another broker
// serves it, kerr.KafkaStorageError while the volume keeps it from being served,
// kerr.UnknownTopicID or kerr.UnknownTopicOrPartition if there is none.
func (b *Broker) Partition(id projections.TopicID, index int32) (*partition.Partition, error) {
	s := b.slot(id, index)
	if h := s.served(); h != nil {
		return h.(*partition.Partition), nil
	}
	t := b.View().TopicByID(id)
	switch {
	case t == nil:
		return nil, fmt.Errorf("%w: %s", kerr.UnknownTopicID, id)
	case index < 0 || int(index) >= len(t.Partitions):
		return nil, fmt.Errorf("%w: %s has no partition %d", kerr.UnknownTopicOrPartition, t.Name, index)
	}
	if err := s.offline(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s-%d is not open here", kerr.NotLeaderForPartition, t.Name, index)
}

// Offline is why the volume keeps a partition of this broker from being served, nil if
// it does not; it wraps kerr.KafkaStorageError.
func (b *Broker) Offline(id projections.TopicID, index int32) error {
	return b.slot(id, index).offline()
}

func (b *Broker) slot(id projections.TopicID, index int32) *slot {
	if ss := b.slots.Load().topics[id]; index >= 0 && int(index) < len(ss) {
		return ss[index]
	}
	return nil
}

// serveLocked shows what is open, a partition under the configuration that the view has
// now: it was opened under an earlier one, perhaps, and changes reach only what is shown.
func (b *Broker) serveLocked(s *slot, h held) {
	view := b.View()
	p, ok := h.(*partition.Partition)
	if t := view.TopicByID(s.topic); ok && t != nil {
		p.Reconfigure(b.partitionConfig(view, t, b.mu.shown))
	}
	s.held.Store(&h)
}

func (b *Broker) openPartition(s *slot, t *tenure, want projections.Partition) (held, error) {
	view, at := b.viewAt()
	topic := view.TopicByID(s.topic)
	if topic == nil {
		return nil, errGone
	}
	cfg := b.partitionConfig(view, topic, at)
	if s.last != nil {
		cfg.After = s.last.(*partition.Partition)
	}
	// Not the keeper's context: an opening that is given up halfway leaves an epoch that
	// nobody has closed, and who is to lead next would wait for that.
	p, err := b.opt.open(b.run, t.s, s.topic, topic.Name, s.index, want.Epoch, cfg)
	if err != nil {
		return nil, err
	}
	s.last = nil
	return p, nil
}

// partitionConfig is what a topic's partitions go by in the view at a position.
func (b *Broker) partitionConfig(view *projections.Cluster, t *projections.Topic, at substrate.Position) partition.Config {
	cfg := b.opt.PartitionConfig(view, t)
	cfg.About = &partition.About{Partitions: int32(len(t.Partitions)), Configs: t.Configs, Created: t.CreatedAt.UnixMilli(), View: at}
	cfg.Node = b.opt.NodeID
	cfg.Room, cfg.Recovery = b.space.room, b.recovery
	cfg.Fenced = func(producer int64) (int16, bool) { return b.View().FencedEpoch(producer) }
	if cfg.Now == nil {
		cfg.Now = b.opt.Now
	}
	if cfg.Log == nil {
		cfg.Log = b.log
	}
	return cfg
}
