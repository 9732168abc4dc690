package groupshard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// Listed is a group in a list.
type Listed struct {
	Group, ProtocolType, State string
	Type                       string // "classic" or "consumer"
}

// Description is a group whole: of one of the protocols.
type Description struct {
	Classic  *classic.Description
	Consumer *groups.Consumer // of the next-generation protocol
	State    string
}

// List is every group of the shard, by ID. It rests on a Check begun after the call.
func (s *Shard) List(ctx context.Context) ([]Listed, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	out := map[string]Listed{}
	for g := range s.w.Committed().State.Groups() {
		out[g.ID] = listedOf(g)
	}
	s.mu.Lock()
	for id, l := range s.mu.live {
		if _, stored := out[id]; stored || !l.g.Idle() {
			out[id] = Listed{Group: id, ProtocolType: l.g.ProtocolType(), State: l.g.State(), Type: "classic"}
		}
	}
	s.mu.Unlock()
	return slices.SortedFunc(maps.Values(out), func(a, b Listed) int {
		if a.Group < b.Group {
			return -1
		}
		return 1
	}), nil
}

func listedOf(g *groups.Group) Listed {
	l := Listed{Group: g.ID, State: "Empty", Type: "classic"}
	switch {
	case g.Consumer != nil:
		l.ProtocolType, l.Type, l.State = "consumer", "consumer", consumer.State(g.Consumer)
	case g.Classic != nil:
		l.ProtocolType = g.Classic.ProtocolType
	}
	return l
}

// Describe tells of a group. Errors wrap kerr.GroupIDNotFound where there is none.
func (s *Shard) Describe(ctx context.Context, group string) (Description, error) {
	if err := s.fresh(ctx); err != nil {
		return Description{}, err
	}
	g := s.group(group)
	if g != nil && g.Consumer != nil {
		return Description{Consumer: g.Consumer, State: consumer.State(g.Consumer)}, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if g == nil && s.mu.live[group] == nil {
		return Description{}, fmt.Errorf("%w: %s", kerr.GroupIDNotFound, group)
	}
	l := s.liveLocked(group, time.Now())
	d := l.g.Describe()
	s.settleLocked(l)
	return Description{Classic: &d, State: d.State}, nil
}

// Delete deletes a group with its offsets. Errors wrap kerr.NonEmptyGroup and
// kerr.GroupIDNotFound.
func (s *Shard) Delete(ctx context.Context, group string) error {
	return s.publish(ctx, "group "+group+" deleted", func(st *groups.Shard) ([]groups.Fact, error) {
		g := st.Group(group)
		if isConsumer(g) {
			return nil, fmt.Errorf("%w: %s", kerr.NonEmptyGroup, group)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if l := s.mu.live[group]; l != nil {
			if err := l.g.MayDelete(); err != nil {
				return nil, err
			}
			// Who joins from here on joins a new group.
			s.closeLocked(l, kerr.NotCoordinator)
		}
		if g == nil {
			return nil, fmt.Errorf("%w: %s", kerr.GroupIDNotFound, group)
		}
		return []groups.Fact{&groups.GroupDeleted{Group: group}}, nil
	})
}

// DeleteOffsets drops offsets of partitions, with an error or nil for each partition in
// order: kerr.GroupSubscribedToTopic where members subscribe to the topic. One for all
// wraps kerr.GroupIDNotFound or kerr.NonEmptyGroup.
func (s *Shard) DeleteOffsets(ctx context.Context, group string, topics []groups.TopicPartitions) (errs []error, err error) {
	err = s.publish(ctx, "offsets deleted", func(st *groups.Shard) ([]groups.Fact, error) {
		errs = nil
		g := st.Group(group)
		if g == nil {
			return nil, fmt.Errorf("%w: %s", kerr.GroupIDNotFound, group)
		}
		subscribed, err := s.subscribed(g)
		if err != nil {
			return nil, err
		}
		var out []groups.TopicPartitions
		for _, t := range topics {
			var e error
			if subscribed(t.Topic) {
				e = kerr.GroupSubscribedToTopic
			}
			var ps []int32
			for _, i := range t.Partitions {
				errs = append(errs, e)
				if _, ok := g.Offsets[t.Topic][i]; ok && e == nil {
					ps = append(ps, i)
				}
			}
			if len(ps) > 0 {
				out = append(out, groups.TopicPartitions{Topic: t.Topic, Partitions: ps})
			}
		}
		if len(out) == 0 {
			return nil, nil
		}
		return []groups.Fact{&groups.OffsetsRemoved{Group: group, Topics: out}}, nil
	})
	return errs, err
}

// subscribed says which topics a group's members subscribe to.
func (s *Shard) subscribed(g *groups.Group) (func(projections.TopicID) bool, error) {
	view := s.opt.View()
	named := func(f func(string) bool) func(projections.TopicID) bool {
		return func(id projections.TopicID) bool {
			t := view.TopicByID(id)
			return t != nil && f(t.Name)
		}
	}
	if g.Consumer != nil {
		cfg := s.opt.Config(view, g.ID).Consumer
		return named(func(name string) bool { return consumer.Subscribed(g, view, cfg, name) }), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.mu.live[g.ID]
	if l == nil || l.g.Idle() {
		return func(projections.TopicID) bool { return false }, nil
	}
	if err := l.g.MayDeleteOffsets(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, g.ID)
	}
	topics := map[string]bool{}
	for _, t := range view.Topics() {
		topics[t.Name] = l.g.Subscribed(t.Name)
	}
	return named(func(name string) bool { return topics[name] }), nil
}
