package groupshard

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// Commit are offsets that a member, or with generation -1 anybody, has a group commit.
type Commit struct {
	Group      string
	MemberID   string
	InstanceID *string
	Generation int32 // or the member's epoch, under the next-generation protocol
	Topics     []groups.TopicOffsets
	// Epochless says that the request's version knows no member epochs.
	Epochless bool
}

// Commit commits offsets. Errors are kerr's, as CASES G-03 has them.
func (s *Shard) Commit(ctx context.Context, c Commit) error {
	return s.publish(ctx, "offsets", func(st *groups.Shard) ([]groups.Fact, error) {
		if err := s.mayCommit(st.Group(c.Group), c, false); err != nil {
			return nil, err
		}
		if len(c.Topics) == 0 {
			return nil, nil
		}
		return []groups.Fact{&groups.OffsetsCommitted{Group: c.Group, Time: s.nowMs(), Topics: c.Topics}}, nil
	})
}

// mayCommit decides at the point that orders the stream: a commit that it lets pass stands
// before the membership of the next generation.
func (s *Shard) mayCommit(g *groups.Group, c Commit, txn bool) error {
	if isConsumer(g) {
		if m := g.Consumer.Members[c.MemberID]; m != nil && m.Classic == nil && c.Epochless {
			return fmt.Errorf("%w: members of the next-generation protocol commit in version 9 or later", kerr.UnsupportedVersion)
		}
		return consumer.MayCommit(g, c.MemberID, c.InstanceID, c.Generation, txn, c.Topics)
	}
	if g == nil && c.Generation >= 0 && !s.isLive(c.Group) {
		if !txn { // who commits in a transaction knows no such code
			return fmt.Errorf("%w: %s", kerr.GroupIDNotFound, c.Group)
		}
		return fmt.Errorf("%w: there is no group %s", kerr.IllegalGeneration, c.Group)
	}
	return s.withClassic(c.Group, func(l *live, now time.Time) error {
		return l.g.MayCommit(now, c.MemberID, c.InstanceID, c.Generation, txn)
	})
}

func (s *Shard) isLive(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.live[group] != nil
}

// Fetch is what is committed of a group, nil if nothing is. It rests on a Check begun after
// the call; those that wait at once share one. With a member, its epoch must be the
// newest (OffsetFetch 9).
func (s *Shard) Fetch(ctx context.Context, group string, member *string, epoch int32) (*groups.Group, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	g := s.group(group)
	if isConsumer(g) {
		if err := consumer.MayFetch(g, member, epoch); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// TopicsDeleted is told of topics that the cluster has deleted: their offsets are dropped.
func (s *Shard) TopicsDeleted(ids []projections.TopicID) {
	s.mu.Lock()
	s.mu.gone = append(s.mu.gone, ids...)
	s.mu.Unlock()
	select {
	case s.mu.deleted <- struct{}{}:
	default:
	}
}
