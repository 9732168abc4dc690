package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

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
	delete(g.pending, r.MemberID)
	if m := g.joiner(r); m != nil {
		g.drop(now, m)
	}
	if g.state == preparing {
		g.completeIfJoined(now)
	}
}
