package coordinator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// ACLEdit returns the ACLs that are to be made and those that are to go, given the cluster. It
// may run more than once: what counts is what it has come to last. An error refuses.
type ACLEdit func(view *projections.Cluster) (created, deleted []projections.ACL, err error)

// mostAtOnce bounds what one change of ACLs, quotas or credentials makes or deletes, as in Kafka.
const mostAtOnce = 10_000

func notTooMany(what string, n int) error {
	if n > mostAtOnce {
		return fmt.Errorf("%w: %d %s at once, more than %d", kerr.InvalidRequest, n, what, mostAtOnce)
	}
	return nil
}

// AlterACLs has ACLs made or deleted and returns when that is committed and shown. The edit
// runs at the point that orders all changes. ACLs are judged by whoever makes the edit.
//
// Errors are the edit's, or wrap kerr.PolicyViolation (too many), NotController when the broker
// ends, KafkaStorageError, and RequestTimedOut with ctx, when the change may be made
// nevertheless.
func (b *Broker) AlterACLs(ctx context.Context, edit ACLEdit) error {
	return b.await(ctx, "alter ACLs", func() error {
		_, err := b.publish(b.run, "ACLs altered", func(c *projections.Cluster) ([]metalog.Event, error) {
			created, deleted, err := edit(c)
			if err != nil {
				return nil, err
			}
			return aclEvents(c.ACLs(), created, deleted)
		})
		return err
	})
}

// aclEvents are what changes of the ACLs there are.
func aclEvents(have *projections.ACLs, created, deleted []projections.ACL) ([]metalog.Event, error) {
	var fs []projections.Fact
	gone := distinct(deleted, have.Has)
	if len(gone) > 0 {
		fs = append(fs, &projections.ACLsDeleted{ACLs: gone})
	}
	added := distinct(created, func(a projections.ACL) bool { return !have.Has(a) })
	if len(added) > 0 {
		fs = append(fs, &projections.ACLsCreated{ACLs: added})
	}
	if err := cmp.Or(notTooMany("ACLs", max(len(added), len(gone))), have.Fits(added)); err != nil {
		return nil, err
	}
	return projections.NewEvents(fs...)
}

// distinct are those that are wanted, each once.
func distinct(acls []projections.ACL, wanted func(projections.ACL) bool) (out []projections.ACL) {
	seen := map[projections.ACL]bool{}
	for _, a := range acls {
		if wanted(a) && !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	return out
}
