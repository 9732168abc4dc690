package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Heartbeat is a Heartbeat of versions 0 to 4. The error is a *kerr.Error;
// REBALANCE_IN_PROGRESS asks a living member to join again.
func (g *Group) Heartbeat(now time.Time, memberID string, instanceID *string, generation int32) error {
	m, err := g.current(memberID, instanceID, generation)
	if err != nil {
		return err
	}
	m.alive(now)
	if g.state == preparing {
		return kerr.RebalanceInProgress
	}
	return nil
}

// Leave is a LeaveGroup of versions 0 to 5: the members leave, or are made to by an
// administrator, who knows them by their instance. The errors are *kerr.Error, one for
// each member.
func (g *Group) Leave(now time.Time, members []LeaveMember) []error {
	errs := make([]error, len(members))
	before := len(g.members)
	for i, l := range members {
		errs[i] = g.leave(now, l)
	}
	switch left := len(g.members) < before; {
	case g.state == preparing:
		g.completeIfJoined(now)
	case left:
		g.prepare(now)
	}
	return errs
}

func (g *Group) leave(now time.Time, l LeaveMember) error {
	if g.state == dead {
		return kerr.CoordinatorNotAvailable
	}
	if g.pending.has(l.MemberID) {
		g.pending.drop(l.MemberID)
		return nil
	}
	id := l.MemberID
	if id == "" && l.InstanceID != nil && g.static[*l.InstanceID] != nil {
		id = g.static[*l.InstanceID].ID
	}
	m, err := g.find(id, l.InstanceID)
	if err != nil {
		return err
	}
	g.drop(now, m)
	return nil
}
