package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// rebalance is what a group keeps while it rebalances.
type rebalance struct {
	joinBy time.Time // until when the join phase waits; zero: it does not
	syncBy time.Time // until when members may ask for their assignments; zero: all have
	// The first rebalance of an empty group waits for more members to come, and longer
	// while they do, until limit.
	initial bool
	grew    bool
	limit   time.Time
}

// Rebalance begins a rebalance, unless there is one: something outside of the group has
// changed what there is to be assigned.
func (g *Group) Rebalance(now time.Time) {
	if g.state == stable || g.state == completing {
		g.prepare(now)
	}
}

// prepareOrComplete begins a rebalance; if there is one, it may have all it waits for.
func (g *Group) prepareOrComplete(now time.Time) {
	if g.state == preparing {
		g.completeIfJoined(now)
		return
	}
	g.prepare(now)
}

// prepare begins the join phase.
func (g *Group) prepare(now time.Time) {
	for _, m := range g.members {
		if g.state == completing {
			m.Assignment = nil
		}
		g.answerSync(now, m, kerr.RebalanceInProgress)
	}
	g.storing = nil
	timeout := g.rebalanceTimeout()
	if g.state == empty {
		delay := g.cfg.InitialDelay
		g.rebalance = rebalance{initial: true, joinBy: now.Add(delay), limit: now.Add(max(delay, timeout))}
		g.state = preparing
		return
	}
	g.rebalance = rebalance{joinBy: now.Add(timeout)}
	g.state = preparing
	g.completeIfJoined(now)
}

// rebalanceTimeout is the longest that any member asks for.
func (g *Group) rebalanceTimeout() time.Duration {
	longest := time.Millisecond
	for _, m := range g.members {
		longest = max(longest, m.RebalanceTimeout)
	}
	return longest
}

// completeIfJoined ends the join phase if there is nobody to wait for. The first
// rebalance of a group waits all the same.
func (g *Group) completeIfJoined(now time.Time) {
	if g.rebalance.initial || len(g.members) > 0 && !g.allJoined() {
		return
	}
	g.complete(now)
}

func (g *Group) allJoined() bool {
	for _, m := range g.members {
		if m.join == nil {
			return false
		}
	}
	return g.pending.due.Len() == 0
}

// joinTimer ends the join phase, or lengthens that of a group that is still growing.
func (g *Group) joinTimer(now time.Time) {
	r := &g.rebalance
	if !r.initial || !r.grew || !now.Before(r.limit) {
		g.complete(now)
		return
	}
	r.grew = false
	r.joinBy = now.Add(g.cfg.InitialDelay)
	if r.joinBy.After(r.limit) {
		r.joinBy = r.limit
	}
}

// complete ends the join phase. Members that have not joined are dropped; static ones
// stay until their sessions end, and may take their time to come back.
func (g *Group) complete(now time.Time) {
	g.dropAll(now, func(m *member) bool { return m.join == nil && m.InstanceID == nil })
	switch {
	case len(g.members) == 0:
		g.becomeEmpty()
	case !g.chooseLeader():
		g.rebalance = rebalance{joinBy: now.Add(g.rebalanceTimeout())}
	default:
		g.nextGeneration(now)
	}
}

// chooseLeader reports whether there is a member that can lead: one that has joined. The
// leader stays the same if it can.
func (g *Group) chooseLeader() bool {
	if g.byID[g.leader].join != nil {
		return true
	}
	for _, m := range g.members {
		if m.join != nil {
			g.leader = m.ID
			return true
		}
	}
	return false
}

// nextGeneration tells everybody who has joined of the new generation, and begins to wait
// for the leader's assignment.
func (g *Group) nextGeneration(now time.Time) {
	g.generation++
	g.protocol = g.elect()
	g.topics = g.subscriptions()
	g.state = completing
	g.rebalance = rebalance{syncBy: now.Add(g.rebalanceTimeout())}
	for _, m := range g.members {
		g.answerJoin(now, m, g.joined(m), nil)
		m.alive(now)
		m.unsynced = true
	}
}

// becomeEmpty is the generation without members. If it cannot be stored, the stored one
// before it comes back with the next owner, and its members time out.
func (g *Group) becomeEmpty() {
	g.generation++
	g.protocol, g.state, g.rebalance = "", empty, rebalance{}
	g.topics = g.subscriptions()
	g.store(g.Membership())
}
