package consumer

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// MayCommit reports whether a group with members of this protocol takes a commit. Who is
// no member, and has a negative epoch, may commit while there are no members. A member
// commits in its epoch. It may do so in the one before too, since it may not have heard of
// the new one, but then only for partitions that it still has: another may have committed
// further in those that it gave up. Instance IDs are not looked at.
func MayCommit(g *groups.Group, memberID string, instanceID *string, epoch int32, txn bool, topics []groups.TopicOffsets) error {
	members := g.Consumer.Members
	switch m := members[memberID]; {
	case epoch < 0 && len(members) == 0, txn && epoch == -1 && memberID == "" && instanceID == nil:
		return nil
	case m == nil:
		return fmt.Errorf("member %q of group %q: %w", memberID, g.ID, kerr.UnknownMemberID)
	case epoch == m.Epoch && epoch >= 0:
		return nil
	case epoch > 0 && epoch == m.PreviousEpoch && m.Epoch > 0 && m.Classic == nil && hasAll(m, topics):
		return nil
	default:
		return stale(m, epoch)
	}
}

// stale says that an epoch is not the member's, in the words of its protocol.
func stale(m *groups.ConsumerMember, epoch int32) error {
	if m.Classic != nil {
		return fmt.Errorf("member %q is at generation %d, not %d: %w", m.ID, m.Epoch, epoch, kerr.IllegalGeneration)
	}
	return fmt.Errorf("member %q is at epoch %d, not %d: %w", m.ID, m.Epoch, epoch, kerr.StaleMemberEpoch)
}

// hasAll reports whether a member has not given up any of some partitions.
func hasAll(m *groups.ConsumerMember, topics []groups.TopicOffsets) bool {
	a := has(m)
	for _, t := range topics {
		for _, p := range t.Partitions {
			if _, ok := slices.BinarySearch(a[t.Topic], p.Partition); !ok {
				return false
			}
		}
	}
	return true
}

// MayFetch reports whether a group with members of this protocol tells its offsets: to
// whoever does not say that it is a member, and to members in their epoch.
func MayFetch(g *groups.Group, member *string, epoch int32) error {
	if member == nil && epoch < 0 {
		return nil
	}
	id := ""
	if member != nil {
		id = *member
	}
	switch m := g.Consumer.Members[id]; {
	case m == nil:
		return fmt.Errorf("member %q of group %q: %w", id, g.ID, kerr.UnknownMemberID)
	case epoch == m.Epoch:
		return nil
	default:
		return stale(m, epoch)
	}
}
