package groupshard

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// decision is what is to become of a group, nil if there is none, of the next-generation
// protocol. It may be made any number of times; the last counts.
type decision func(g *groups.Group, view *projections.Cluster, cfg consumer.Config) ([]groups.Fact, error)

// mostMatches is how often a decision is tried anew because there are patterns that have to
// be matched first.
const mostMatches = 5

var errUnmatched = errors.New("patterns are not matched yet")

// match makes a decision where nobody else waits for it. What its patterns match is known then.
func (s *Shard) match(group string, decide decision) ([]groups.Fact, error) {
	view := s.opt.View()
	return decide(s.group(group), view, s.consumerConfig(view, group))
}

// publishMatched is publish for a decision that may need what patterns match. All of the shard
// waits while it is made, so that no pattern is matched then; then, unless it is nil, is called
// for facts that count.
func (s *Shard) publishMatched(ctx context.Context, reason, group string, decide decision, then func(*groups.Group, []groups.Fact) error) error {
	for range mostMatches {
		err := s.publish(ctx, reason, func(st *groups.Shard) ([]groups.Fact, error) {
			g, view := st.Group(group), s.opt.View()
			cfg := s.consumerConfig(view, group)
			unmatched := false
			cfg.Unmatched = &unmatched
			fs, err := decide(g, view, cfg)
			if unmatched {
				return nil, errUnmatched
			}
			if err == nil && then != nil {
				err = then(g, fs)
			}
			return fs, err
		})
		if !errors.Is(err, errUnmatched) {
			return err
		}
		if _, err := s.match(group, decide); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: topics change faster than patterns are matched", kerr.CoordinatorNotAvailable)
}
