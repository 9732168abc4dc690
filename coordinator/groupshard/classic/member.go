package classic

import (
	"bytes"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// firstJoin is how long a new member's join may wait. Its session does not count yet, as
// it may not know its ID; but a client that is gone must not stay for ever.
const firstJoin = 5 * time.Minute

// member is a member of the group.
type member struct {
	groups.ClassicMember
	join, sync Token     // what waits; nil: nothing
	fresh      bool      // joined, and never told so
	unsynced   bool      // has yet to ask for its assignment of the generation
	expires    time.Time // the session; see deadline
}

// alive begins the session anew.
func (m *member) alive(now time.Time) {
	if !m.fresh {
		m.expires = now.Add(m.SessionTimeout)
	}
}

// deadline is when the session ends. A member that waits for an answer cannot be asked to
// show that it is alive, except that a new one may wait only so long.
func (m *member) deadline() (time.Time, bool) {
	waits := m.join != nil || m.sync != nil
	return m.expires, m.fresh || !waits
}

// offers reports that the member's protocols are these.
func (m *member) offers(ps []groups.Protocol) bool {
	return slices.EqualFunc(m.Protocols, ps, func(a, b groups.Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

// metadata is what the member says under a protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.Protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// add takes a member in.
func (g *Group) add(m *member) {
	g.members = append(g.members, m)
	g.index(m)
	if g.leader == "" {
		g.leader = m.ID
	}
}

func (g *Group) index(m *member) {
	g.byID[m.ID] = m
	if m.InstanceID != nil {
		g.static[*m.InstanceID] = m
	}
	g.count(m, 1)
}

func (g *Group) unindex(m *member) {
	delete(g.byID, m.ID)
	if m.InstanceID != nil {
		delete(g.static, *m.InstanceID)
	}
	g.count(m, -1)
}

func (g *Group) count(m *member, by int) {
	g.bytes += int64(by) * weight(&m.ClassicMember)
	for _, p := range m.Protocols {
		if g.supported[p.Name] += by; g.supported[p.Name] == 0 {
			delete(g.supported, p.Name)
		}
	}
}

// drop lets a member go. What waits for it is told to start again.
func (g *Group) drop(now time.Time, m *member) {
	g.answerJoin(now, m, JoinResponse{Generation: -1}, kerr.UnknownMemberID)
	g.answerSync(now, m, kerr.UnknownMemberID)
	g.unindex(m)
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	if g.leader != m.ID {
		return
	}
	g.leader = ""
	if len(g.members) > 0 {
		g.leader = g.members[0].ID
	}
}

// dropAll lets the members go that match, and reports whether there were any.
func (g *Group) dropAll(now time.Time, match func(*member) bool) bool {
	found := false
	for _, m := range slices.Clone(g.members) {
		if match(m) {
			g.drop(now, m)
			found = true
		}
	}
	return found
}

// find returns the member of an ID that a request names. An instance ID must be the
// member's.
func (g *Group) find(id string, instance *string) (*member, error) {
	if instance != nil {
		switch m := g.static[*instance]; {
		case m == nil:
			return nil, kerr.UnknownMemberID
		case m.ID != id:
			return nil, kerr.FencedInstanceID
		}
	}
	if m := g.byID[id]; m != nil {
		return m, nil
	}
	return nil, kerr.UnknownMemberID
}

// current returns the member of a request that belongs to a generation.
func (g *Group) current(id string, instance *string, generation int32) (*member, error) {
	if g.state == dead {
		return nil, kerr.CoordinatorNotAvailable
	}
	m, err := g.find(id, instance)
	if err == nil && generation != g.generation {
		return nil, kerr.IllegalGeneration
	}
	return m, err
}

// answerJoin ends the join of a member that waits for it.
func (g *Group) answerJoin(now time.Time, m *member, r JoinResponse, err error) {
	if m.join == nil {
		return
	}
	g.emit(JoinAnswer{Token: m.join, JoinResponse: r, Err: err})
	m.join, m.fresh = nil, false
	m.alive(now)
}

// answerSync ends the sync of a member that waits for it.
func (g *Group) answerSync(now time.Time, m *member, err error) {
	if m.sync == nil {
		return
	}
	g.emit(SyncAnswer{Token: m.sync, SyncResponse: g.assigned(m, err), Err: err})
	m.sync = nil
	m.alive(now)
}

// assigned is a member's assignment, unless there is an error.
func (g *Group) assigned(m *member, err error) SyncResponse {
	if err != nil {
		return SyncResponse{}
	}
	return SyncResponse{ProtocolType: g.protocolType, Protocol: g.protocol, Assignment: m.Assignment}
}
