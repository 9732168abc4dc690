package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// Join is a JoinGroup of versions 0 to 9. It is answered by a [JoinAnswer].
func (g *Group) Join(now time.Time, r JoinRequest) {
	r.Protocols = distinct(r.Protocols)
	if r.RebalanceTimeout <= 0 {
		r.RebalanceTimeout = r.SessionTimeout
	}
	switch {
	case r.SessionTimeout < g.cfg.MinSession || r.SessionTimeout > g.cfg.MaxSession:
		g.refuse(r, r.MemberID, kerr.InvalidSessionTimeout)
	case g.state == dead:
		g.refuse(r, r.MemberID, kerr.CoordinatorNotAvailable)
	case !g.hasPlace(r):
		g.turnAway(now, r)
	case !g.supports(r.ProtocolType, r.Protocols):
		g.refuse(r, r.MemberID, kerr.InconsistentGroupProtocol)
	case g.bytes+g.Growth(r) > max(MostBytes, g.bytes):
		g.refuse(r, "", kerr.GroupMaxSizeReached)
	case r.MemberID == "":
		g.joinNew(now, r)
	default:
		g.joinKnown(now, r)
	}
}

func (g *Group) refuse(r JoinRequest, id string, err error) {
	g.emit(JoinAnswer{Token: r.Token, JoinResponse: JoinResponse{MemberID: id, Generation: -1}, Err: err})
}

// joinNew is a join of somebody without a member ID. A dynamic member is first given one,
// so that a client that tries again is not taken for two (KIP-394); a static member is
// known by its instance.
func (g *Group) joinNew(now time.Time, r JoinRequest) {
	if r.InstanceID != nil {
		id := *r.InstanceID + "-" + g.cfg.NewID()
		if old := g.static[*r.InstanceID]; old != nil {
			g.replace(now, old, id, r)
			return
		}
		g.admit(now, id, r)
		return
	}
	id := r.ClientID + "-" + g.cfg.NewID()
	if !r.RequireKnownID {
		g.admit(now, id, r)
		return
	}
	g.pending.add(id, now.Add(r.SessionTimeout))
	g.refuse(r, id, kerr.MemberIDRequired)
}

// joinKnown is a join under a member ID.
func (g *Group) joinKnown(now time.Time, r JoinRequest) {
	if g.pending.has(r.MemberID) && r.InstanceID == nil {
		g.admit(now, r.MemberID, r)
		return
	}
	m, err := g.find(r.MemberID, r.InstanceID)
	if err != nil {
		g.refuse(r, r.MemberID, err)
		return
	}
	m.alive(now)
	// The leader of a stable group asks for a rebalance when something has changed that
	// no member's metadata shows, such as a topic's partitions.
	asks := g.state == stable && m.ID == g.leader
	if g.state == preparing || asks || !m.offers(r.Protocols) {
		g.update(m, r)
		g.park(m, r.Token)
		g.prepareOrComplete(now)
		return
	}
	// It may have missed the answer: here it is again.
	g.emit(JoinAnswer{Token: r.Token, JoinResponse: g.joined(m)})
}

// admit takes somebody in as a new member.
func (g *Group) admit(now time.Time, id string, r JoinRequest) {
	g.pending.drop(id)
	if len(g.members) == 0 {
		g.protocolType = r.ProtocolType
	}
	if g.state == preparing {
		g.rebalance.grew = true
	}
	g.add(&member{
		ClassicMember: groups.ClassicMember{
			ID:               id,
			InstanceID:       r.InstanceID,
			ClientID:         r.ClientID,
			Host:             r.Host,
			SessionTimeout:   r.SessionTimeout,
			RebalanceTimeout: r.RebalanceTimeout,
			Protocols:        r.Protocols,
		},
		join:    r.Token,
		fresh:   true,
		expires: now.Add(firstJoin),
	})
	g.prepareOrComplete(now)
}

// update takes over what a member says of itself when it joins again.
func (g *Group) update(m *member, r JoinRequest) {
	g.count(m, -1)
	m.Protocols, m.ClientID, m.Host = r.Protocols, r.ClientID, r.Host
	g.count(m, 1)
	m.SessionTimeout, m.RebalanceTimeout = r.SessionTimeout, r.RebalanceTimeout
}

// park lets a join wait for the rebalance. An earlier one of the same member has been
// given up by the client, or else it is the one that starts again.
func (g *Group) park(m *member, t Token) {
	if m.join != nil {
		g.emit(JoinAnswer{Token: m.join, JoinResponse: JoinResponse{MemberID: m.ID, Generation: -1}, Err: kerr.RebalanceInProgress})
	}
	m.join = t
}

// joined is the answer that tells a member of the generation.
func (g *Group) joined(m *member) JoinResponse {
	r := JoinResponse{
		MemberID:     m.ID,
		Generation:   g.generation,
		ProtocolType: g.protocolType,
		Protocol:     g.protocol,
		Leader:       g.leader,
	}
	if m.ID != g.leader {
		return r
	}
	for _, o := range g.members {
		r.Members = append(r.Members, JoinMember{MemberID: o.ID, InstanceID: o.InstanceID, Metadata: o.metadata(g.protocol)})
	}
	return r
}
