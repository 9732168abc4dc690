package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// slotTable holds a slot for each partition that this broker is to serve, by
// topic and index. It is immutable; followLocked replaces it.
type slotTable map[projections.TopicID][]*slot

// slot is the place of one partition. Its keeper fills it whenever the partition
// can be served.
type slot struct {
	id     projections.TopicID
	index  int32
	cancel context.CancelFunc
	p      atomic.Pointer[partition.Partition]
	// trouble is why the volume keeps the partition from being served, nil if it does not.
	trouble atomic.Pointer[error]
	last    *partition.Partition // the leadership that failed last; the keeper's
	opened  chan struct{}        // closed when it was served for the first time
	ended   chan struct{}        // closed when its keeper has let go of the files
}

// Partition returns a partition that this broker serves now. The error wraps
// kerr.NotLeaderForPartition while it is being opened or when another broker
// serves it, kerr.KafkaStorageError while the volume keeps it from being served,
// kerr.UnknownTopicID or kerr.UnknownTopicOrPartition if there is none.
func (b *Broker) Partition(id projections.TopicID, index int32) (*partition.Partition, error) {
	s := b.slot(id, index)
	if s != nil {
		if p := s.p.Load(); p != nil {
			return p, nil
		}
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
	if ss := (*b.slots.Load())[id]; index >= 0 && int(index) < len(ss) {
		return ss[index]
	}
	return nil
}

// fail has err told to who asks for the partition until it is served again.
func (s *slot) fail(err error) {
	if !errors.Is(err, kerr.KafkaStorageError) {
		err = fmt.Errorf("%w: %w", kerr.KafkaStorageError, err)
	}
	s.trouble.Store(&err)
}

// offline is what fail was told, nil while the partition is served.
func (s *slot) offline() error {
	if s == nil || s.p.Load() != nil {
		return nil
	}
	if trouble := s.trouble.Load(); trouble != nil {
		return *trouble
	}
	return nil
}

// followLocked starts and ends keepers, and removals, as the new view has it. What
// is the same topic value as before has nothing new.
func (b *Broker) followLocked(old, view *projections.Cluster) {
	table := *b.slots.Load()
	next := table
	edit := sync.OnceFunc(func() { next = maps.Clone(table) })
	for _, t := range old.Topics() {
		if view.TopicByID(t.ID) == nil {
			edit()
			delete(next, t.ID)
			cancelAll(table[t.ID])
		}
	}
	for _, t := range view.Topics() {
		if old.TopicByID(t.ID) != t {
			if ss := b.fillLocked(table[t.ID], t); ss != nil {
				edit()
				next[t.ID] = ss
			}
		}
	}
	b.slots.Store(&next)
	b.reconfigureLocked(old, view, next)
	byID := func(a, b projections.TopicID) int { return slices.Compare(a[:], b[:]) }
	for _, id := range slices.SortedFunc(maps.Keys(view.Removing()), byID) {
		b.removeLocked(id, view.Removing()[id], table[id])
	}
}

func cancelAll(ss []*slot) {
	for _, s := range ss {
		if s != nil {
			s.cancel()
		}
	}
}

// fillLocked returns the topic's slots with a keeper for each partition that is
// ours, or nil if ss has them all.
func (b *Broker) fillLocked(ss []*slot, t *projections.Topic) []*slot {
	out := make([]*slot, len(t.Partitions))
	copy(out, ss)
	changed := false
	for i, p := range t.Partitions {
		if out[i] == nil && p.Leader == b.opt.NodeID {
			changed = true
			out[i] = b.newSlotLocked(t.ID, int32(i))
		}
	}
	if !changed {
		return nil
	}
	return out
}

func (b *Broker) newSlotLocked(id projections.TopicID, index int32) *slot {
	s := &slot{id: id, index: index, opened: make(chan struct{}), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(b.run)
	s.cancel = cancel
	if !b.spawnLocked(func() { defer cancel(); b.keep(ctx, s) }) {
		cancel()
		close(s.ended)
	}
	return s
}
