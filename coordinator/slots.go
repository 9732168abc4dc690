package coordinator

import (
	"cmp"
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

// slot is the place of one partition while the view has this broker lead it. Its keeper
// fills it whenever the partition can be served.
type slot struct {
	place
	cancel context.CancelFunc
	p      atomic.Pointer[partition.Partition]
	// want is what the view says of the partition; retarget is told when it changes.
	want     atomic.Pointer[projections.Partition]
	retarget chan struct{}
	// failed is what the keeper has to say to the controller: under want, the partition
	// is not served, and cannot be.
	failed atomic.Pointer[unserved]
	// trouble is why the volume keeps the partition from being served, nil if it does not.
	trouble atomic.Pointer[error]
	last    *partition.Partition // the leadership that failed last; the keeper's
	before  *slot                // of an earlier time as leader, whose files may be open yet
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

// followLocked starts, retargets and ends keepers as the new view has it. What is the
// same topic value as before has nothing new.
func (b *Broker) followLocked(old, view *projections.Cluster) {
	table := *b.slots.Load()
	next := table
	edit := sync.OnceFunc(func() { next = maps.Clone(table) })
	for _, t := range old.Topics() {
		if view.TopicByID(t.ID) == nil {
			edit()
			delete(next, t.ID)
			for _, s := range table[t.ID] {
				b.leaveLocked(s)
			}
		}
	}
	serves := b.serves(view)
	turned := serves != b.mu.serving
	b.mu.serving = serves
	for _, t := range view.Topics() {
		if turned || old.TopicByID(t.ID) != t {
			if ss := b.fillLocked(table[t.ID], t, serves); ss != nil {
				edit()
				next[t.ID] = ss
			}
		}
	}
	b.slots.Store(&next)
	b.reconfigureLocked(old, view, next)
}

// leaveLocked has the slot's keeper let go. Until it has, the controller is told that the
// partition may be open here.
func (b *Broker) leaveLocked(s *slot) {
	if s == nil {
		return
	}
	b.mu.leaving[s.place] = s
	s.cancel()
}

// leftBehind is told by a keeper that has let go.
func (b *Broker) leftBehind(s *slot) {
	b.mu.Lock()
	if b.mu.leaving[s.place] == s { // and not a later one, that waits for it
		delete(b.mu.leaving, s.place)
	}
	b.mu.Unlock()
	b.report()
}

// fillLocked returns the topic's slots as the view has them, or nil if ss is so already.
func (b *Broker) fillLocked(ss []*slot, t *projections.Topic, serves bool) []*slot {
	out := make([]*slot, len(t.Partitions))
	copy(out, ss)
	changed := len(ss) != len(out) && ss != nil
	for i, p := range t.Partitions {
		s := out[i]
		switch mine := serves && p.Leader == b.opt.NodeID; {
		case mine && s == nil:
			changed = true
			out[i] = b.newSlotLocked(place{t.ID, int32(i)}, p)
		case mine && *s.want.Load() != p:
			s.want.Store(&p)
			select {
			case s.retarget <- struct{}{}:
			default:
			}
		case !mine && s != nil:
			changed = true
			b.leaveLocked(s)
			out[i] = nil
		}
	}
	if !changed {
		return nil
	}
	return out
}

func (b *Broker) newSlotLocked(at place, want projections.Partition) *slot {
	s := &slot{place: at, retarget: make(chan struct{}, 1), ended: make(chan struct{}), before: b.mu.leaving[at]}
	s.want.Store(&want)
	ctx, cancel := context.WithCancel(b.run)
	s.cancel = cancel
	if !b.spawnLocked(func() { defer cancel(); b.keep(ctx, s) }) {
		cancel()
		close(s.ended)
	}
	return s
}

// unservedNow is what the controller is told of partitions: which of those that the view
// assigns to this broker it does not serve, and which others it still has.
func (b *Broker) unservedNow() (us []unserved) {
	for _, ss := range *b.slots.Load() {
		for _, s := range ss {
			if s == nil || s.p.Load() != nil {
				continue
			}
			u := unserved{place: s.place, epoch: s.want.Load().Epoch}
			if f := s.failed.Load(); f != nil && f.epoch == u.epoch {
				u.next = f.next
			}
			us = append(us, u)
		}
	}
	b.mu.Lock()
	for at := range b.mu.leaving {
		us = append(us, unserved{place: at, next: stillHeld})
	}
	b.mu.Unlock()
	slices.SortFunc(us, func(a, b unserved) int {
		return cmp.Or(slices.Compare(a.topic[:], b.topic[:]), cmp.Compare(a.index, b.index), cmp.Compare(a.next, b.next))
	})
	return us
}
