package classic

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// assignment is what the leader of a generation has sent.
type assignment struct {
	store int64
	given map[string][]byte // by member ID
}

// Sync is a SyncGroup of versions 0 to 5. It is answered by a [SyncAnswer].
func (g *Group) Sync(now time.Time, r SyncRequest) {
	m, err := g.current(r.MemberID, r.InstanceID, r.Generation)
	if err == nil && (differs(r.ProtocolType, g.protocolType) || differs(r.Protocol, g.protocol)) {
		err = kerr.InconsistentGroupProtocol
	}
	if err == nil {
		m.alive(now)
		if g.state == preparing {
			err = kerr.RebalanceInProgress
		}
	}
	if err != nil {
		g.emit(SyncAnswer{Token: r.Token, Err: err})
		return
	}
	g.hasSynced(m)
	if g.state == stable {
		g.emit(SyncAnswer{Token: r.Token, SyncResponse: g.assigned(m, nil)})
		return
	}
	g.await(m, r)
}

func differs(said *string, is string) bool { return said != nil && *said != is }

// hasSynced stops the clock once everybody has asked for its assignment.
func (g *Group) hasSynced(m *member) {
	m.unsynced = false
	for _, o := range g.members {
		if o.unsynced {
			return
		}
	}
	g.rebalance.syncBy = time.Time{}
}

// await lets a sync wait for the leader's assignment to be stored; the leader's brings
// it. A second one of the leader in a generation waits for the first: there is one
// assignment in a generation.
func (g *Group) await(m *member, r SyncRequest) {
	if m.sync != nil {
		g.emit(SyncAnswer{Token: m.sync, Err: kerr.RebalanceInProgress})
	}
	m.sync = r.Token
	if m.ID != g.leader || g.storing != nil {
		return
	}
	state := g.Membership()
	for i := range state.Members {
		state.Members[i].Assignment = r.Assignments[state.Members[i].ID]
	}
	g.storing = &assignment{store: g.store(state), given: r.Assignments}
}

// Stored tells how a [Store] ended. An error says that it is not certain to have
// happened; a *kerr.Error in it decides what the waiting members are told. What was
// overtaken by a later rebalance is of no interest any more.
func (g *Group) Stored(now time.Time, id int64, err error) {
	if err == nil {
		g.stored = max(g.stored, id)
	}
	if a := g.storing; a != nil && a.store == id {
		g.storing = nil
		g.settle(now, a, err)
		return
	}
	if r := g.replacing[id]; r != nil {
		delete(g.replacing, id)
		g.replaced(now, r, err)
	}
}

// settle ends the rebalance with the leader's assignment, or begins another if that could
// not be stored.
func (g *Group) settle(now time.Time, a *assignment, err error) {
	if err != nil {
		for _, m := range g.members {
			g.answerSync(now, m, storeError(err))
		}
		g.prepare(now)
		return
	}
	g.state = stable
	for _, m := range g.members {
		m.Assignment = a.given[m.ID]
		g.answerSync(now, m, nil)
	}
}

// storeError is what a client is told when a membership could not be stored: to try again
// here, or to look for the coordinator.
func storeError(err error) error {
	var k *kerr.Error
	if !errors.As(err, &k) {
		return kerr.CoordinatorNotAvailable
	}
	switch k {
	case kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas, kerr.RequestTimedOut:
		return kerr.CoordinatorNotAvailable
	case kerr.NotLeaderForPartition, kerr.KafkaStorageError:
		return kerr.NotCoordinator
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return kerr.UnknownServerError
	}
	return k
}
