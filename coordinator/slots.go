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

	"kaas.dev/kaas/projections"
)

// slotTable holds a slot for each place that this broker is to serve. It is immutable;
// followLocked replaces it.
type slotTable struct {
	topics map[projections.TopicID][]*slot
	shards map[projections.ShardKind][]*slot
}

func (t *slotTable) each(f func(*slot)) {
	for _, ss := range t.topics {
		eachSlot(ss, f)
	}
	for _, ss := range t.shards {
		eachSlot(ss, f)
	}
}

func eachSlot(ss []*slot, f func(*slot)) {
	for _, s := range ss {
		if s != nil {
			f(s)
		}
	}
}

// held is what fills a slot: a *partition.Partition, or a coordinator's shard.
type held interface {
	// Done is closed when it has ended; Err then tells why.
	Done() <-chan struct{}
	Err() error
	// Relinquish ends it so that the successor need not seal; Abandon waits for the calls
	// of one that has ended.
	Relinquish(ctx context.Context) error
	Abandon(ctx context.Context) error
}

// slot is a place while the view has this broker lead it. Its keeper fills it whenever the
// place can be served.
type slot struct {
	place
	cancel context.CancelFunc
	held   atomic.Pointer[held]
	// want is what the view says of the place; retarget is told when it changes.
	want     atomic.Pointer[projections.Partition]
	retarget chan struct{}
	// failed is what the keeper has to say to the controller: under want, the place
	// is not served, and cannot be.
	failed atomic.Pointer[unserved]
	// trouble is why the volume keeps the place from being served, nil if it does not.
	trouble atomic.Pointer[error]
	last    held          // the leadership that failed last; the keeper's
	before  *slot         // of an earlier time as leader, whose files may be open yet
	ended   chan struct{} // closed when its keeper has let go of the files
}

// served is what fills the slot, nil if nothing does.
func (s *slot) served() held {
	if s == nil {
		return nil
	}
	if h := s.held.Load(); h != nil {
		return *h
	}
	return nil
}

// fail has err told to who asks for the place until it is served again.
func (s *slot) fail(err error) {
	if !errors.Is(err, kerr.KafkaStorageError) {
		err = fmt.Errorf("%w: %w", kerr.KafkaStorageError, err)
	}
	s.trouble.Store(&err)
}

// offline is what fail was told, nil while the place is served.
func (s *slot) offline() error {
	if s == nil || s.served() != nil {
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
	table := b.slots.Load()
	next := slotTable{topics: table.topics, shards: map[projections.ShardKind][]*slot{}}
	edit := sync.OnceFunc(func() { next.topics = maps.Clone(table.topics) })
	var gone []projections.TopicID
	for _, t := range old.Topics() {
		if view.TopicByID(t.ID) == nil {
			gone = append(gone, t.ID)
			edit()
			delete(next.topics, t.ID)
			eachSlot(table.topics[t.ID], b.leaveLocked)
		}
	}
	serves := b.serves(view)
	turned := serves != b.mu.serving
	b.mu.serving = serves
	for _, t := range view.Topics() {
		if turned || old.TopicByID(t.ID) != t {
			if ss := b.fillLocked(table.topics[t.ID], place{topic: t.ID}, t.Partitions, serves); ss != nil {
				edit()
				next.topics[t.ID] = ss
			}
		}
	}
	for _, kind := range servedKinds {
		next.shards[kind] = table.shards[kind]
		if ss := b.fillLocked(table.shards[kind], place{kind: kind}, view.Shards(kind), serves); ss != nil {
			next.shards[kind] = ss
		}
	}
	b.slots.Store(&next)
	b.forgetTopicsLocked(gone)
	b.reconfigureLocked(old, view, next.topics)
}

// leaveLocked has the slot's keeper let go. Until it has, the controller is told that the
// place may be open here.
func (b *Broker) leaveLocked(s *slot) {
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

// fillLocked returns the slots of a topic, or of a kind of shards, as the view has them, or
// nil if ss is so already. at is their place, but for the index.
func (b *Broker) fillLocked(ss []*slot, at place, ps []projections.Partition, serves bool) []*slot {
	out := make([]*slot, len(ps))
	copy(out, ss)
	changed := len(ss) != len(out) && ss != nil
	for i, p := range ps {
		s := out[i]
		at.index = int32(i)
		switch mine := serves && p.Leader == b.opt.NodeID; {
		case mine && s == nil:
			changed = true
			out[i] = b.newSlotLocked(at, p)
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

// unservedNow is what the controller is told: which of the places that the view assigns to
// this broker it does not serve, and which others it still has.
func (b *Broker) unservedNow() (us []unserved) {
	b.slots.Load().each(func(s *slot) {
		if s.served() != nil {
			return
		}
		u := unserved{place: s.place, epoch: s.want.Load().Epoch}
		if f := s.failed.Load(); f != nil && f.epoch == u.epoch {
			u.next = f.next
		}
		us = append(us, u)
	})
	b.mu.Lock()
	for at := range b.mu.leaving {
		us = append(us, unserved{place: at, next: stillHeld})
	}
	b.mu.Unlock()
	slices.SortFunc(us, func(a, b unserved) int {
		return cmp.Or(a.place.compare(b.place), cmp.Compare(a.next, b.next))
	})
	return us
}
