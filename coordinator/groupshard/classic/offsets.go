package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// MayCommit reports whether offsets may be committed by whoever says this of itself: nil,
// or a *kerr.Error. A member's commit counts as its heartbeat.
//
//	generation below 0, group empty       yes: an administrator, or a consumer without a group
//	no member, generation below 0         UNKNOWN_MEMBER_ID; yes in a transaction
//	unknown member                        UNKNOWN_MEMBER_ID
//	instance of another member            FENCED_INSTANCE_ID
//	another generation                    ILLEGAL_GENERATION
//	member, CompletingRebalance           REBALANCE_IN_PROGRESS; yes in a transaction
//	member                                yes
//
// A group of which nothing is known is the caller's to judge: Kafka answers
// ILLEGAL_GENERATION to a generation there.
func (g *Group) MayCommit(now time.Time, memberID string, instanceID *string, generation int32, txn bool) error {
	switch {
	case g.state == dead:
		return kerr.CoordinatorNotAvailable
	case generation < 0 && g.state == empty:
		return nil
	case generation < 0 && memberID == "" && instanceID == nil:
		// Transactions of old clients do not say who commits.
		if txn {
			return nil
		}
		return kerr.UnknownMemberID
	}
	m, err := g.current(memberID, instanceID, generation)
	switch {
	case err != nil || txn:
		return err
	case g.state == completing:
		return kerr.RebalanceInProgress
	}
	m.alive(now)
	return nil
}

// MayDelete reports whether the group may be deleted: nil, or a *kerr.Error.
func (g *Group) MayDelete() error {
	switch g.state {
	case dead:
		return kerr.GroupIDNotFound
	case empty:
		return nil
	}
	return kerr.NonEmptyGroup
}

// MayDeleteOffsets reports whether offsets may be deleted, of topics that the group is
// not subscribed to: nil, or a *kerr.Error. What a group of another type than consumers
// uses cannot be known.
func (g *Group) MayDeleteOffsets() error {
	if g.protocolType == consumerType && g.state != dead {
		return nil
	}
	return g.MayDelete()
}

// Subscribed reports whether members of a consumer group subscribe to the topic, or may:
// their metadata could not be read. In a group of another type it is always false.
func (g *Group) Subscribed(topic string) bool {
	if g.topics == nil {
		return g.protocolType == consumerType && g.state != dead
	}
	return g.topics[topic]
}
