package classic

import (
	"bytes"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// replacement is a static member under a new ID that is being stored.
type replacement struct {
	m      *member
	answer JoinResponse
}

// replace gives a static member that was restarted a new ID, and fences whoever still
// uses the old one (KIP-345). In a stable group it takes over the assignment without a
// rebalance, unless it asks for something else than before.
func (g *Group) replace(now time.Time, old *member, id string, r JoinRequest) {
	leader, protocol, before := g.leader, g.protocol, old.metadata(g.protocol)
	m := g.rename(now, old, id)
	g.update(m, r)
	m.join = r.Token
	switch {
	case g.state == preparing:
		g.completeIfJoined(now)
	// The leader of a generation that has just begun may have the old ID in hand.
	case g.state == completing, g.elect() != protocol, !g.sameTopics(before, m.metadata(protocol)):
		g.prepare(now)
	default:
		answer := g.takenOver(m, leader, r.SkipAssignment)
		g.replacing[g.store(g.Membership())] = &replacement{m: m, answer: answer}
	}
}

// rename puts a member under another ID. It keeps its place, and stays the leader.
func (g *Group) rename(now time.Time, old *member, id string) *member {
	g.answerJoin(now, old, JoinResponse{MemberID: old.ID, Generation: -1}, kerr.FencedInstanceID)
	g.answerSync(now, old, kerr.FencedInstanceID)
	m := &member{ClassicMember: old.ClassicMember}
	m.ID = id
	m.alive(now)
	g.unindex(old)
	g.index(m)
	for i := range g.members {
		if g.members[i] == old {
			g.members[i] = m
		}
	}
	if g.leader == old.ID {
		g.leader = id
	}
	return m
}

// takenOver is the answer to a static member that has taken over an assignment. A client
// that is told it leads would assign, though there is nothing to assign: it may be told
// only if it understands that it is to skip that (KIP-814); others are told that the old
// ID leads.
func (g *Group) takenOver(m *member, leader string, skip bool) JoinResponse {
	r := g.joined(m)
	if skip {
		r.SkipAssignment = m.ID == g.leader
		return r
	}
	r.Leader, r.Members = leader, nil
	return r
}

// replaced ends the join of a static member whose new ID is stored, or could not be. If a
// rebalance has begun in the meantime, that answers the join. A new ID that could not be
// stored stays: nobody was told of it, and the member comes again by its instance.
func (g *Group) replaced(now time.Time, r *replacement, err error) {
	if g.state != stable {
		return
	}
	if err != nil {
		g.answerJoin(now, r.m, JoinResponse{Generation: -1}, storeError(err))
		return
	}
	g.answerJoin(now, r.m, r.answer, nil)
}

// sameTopics reports that two versions of a member's metadata subscribe to the same. Of a
// consumer's, only the topics count: the rest, such as what it owned, differs each time.
// Of another type's nothing is known; it is taken to be the same, as Kafka does.
func (g *Group) sameTopics(a, b []byte) bool {
	if g.protocolType != consumerType {
		return true
	}
	was, errWas := subscribed(a)
	is, errIs := subscribed(b)
	if errWas != nil || errIs != nil {
		return bytes.Equal(a, b)
	}
	return maps.Equal(was, is)
}
