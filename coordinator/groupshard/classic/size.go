package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

const (
	// MostBytes bounds what the members of a group may take in memory. Kafka's groups may be
	// no larger than a record of its topic of offsets, which is less.
	MostBytes = 32 << 20
	// ownWeight is what a member takes besides what it says.
	ownWeight = 1 << 10
)

// weight is what a member takes, in bytes.
func weight(m *groups.ClassicMember) int64 {
	n := ownWeight + len(m.ID) + len(m.ClientID) + len(m.Host)
	for i := range m.Protocols {
		n += len(m.Protocols[i].Name) + len(m.Protocols[i].Metadata)
	}
	return int64(n)
}

// Bytes is about what the group takes in memory.
func (g *Group) Bytes() int64 { return ownWeight + g.bytes + g.pending.bytes }

// Growth is by how many bytes a join makes the group larger; not above 0 if it does not.
func (g *Group) Growth(r JoinRequest) int64 {
	if r.MemberID == "" && r.InstanceID == nil && r.RequireKnownID { // it is given an ID, and no more is kept
		return pendingCost(r.ClientID)
	}
	n := weight(&groups.ClassicMember{ID: r.MemberID, ClientID: r.ClientID, Host: r.Host, Protocols: r.Protocols})
	if m := g.joiner(r); m != nil {
		n -= weight(&m.ClassicMember)
	}
	return n
}

// hasPlace reports whether somebody may join without the group growing beyond its size.
// An ID that was only handed out takes no place.
func (g *Group) hasPlace(r JoinRequest) bool {
	m := g.joiner(r)
	switch {
	case g.state == empty:
		return true
	case g.state != preparing:
		return m != nil || len(g.members) < g.cfg.MaxSize
	case m != nil && m.join != nil:
		return true
	}
	// While the group rebalances, those have a place who will be in the next generation
	// for certain. The others have to be quick if the group has become too large.
	taken := 0
	for _, o := range g.members {
		if o != m && (o.join != nil || o.InstanceID != nil) {
			taken++
		}
	}
	return taken < g.cfg.MaxSize
}

// joiner is the member that a join is of, or takes the place of.
func (g *Group) joiner(r JoinRequest) *member {
	if r.MemberID == "" && r.InstanceID != nil {
		return g.static[*r.InstanceID]
	}
	return g.byID[r.MemberID]
}

// turnAway refuses somebody for whom there is no place, and forgets it.
func (g *Group) turnAway(now time.Time, r JoinRequest) {
	g.refuse(r, "", kerr.GroupMaxSizeReached)
	g.pending.drop(r.MemberID)
	if m := g.joiner(r); m != nil {
		g.drop(now, m)
	}
	if g.state == preparing {
		g.completeIfJoined(now)
	}
}
