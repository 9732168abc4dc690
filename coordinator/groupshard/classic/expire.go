package classic

import "time"

// Deadline is when [Group.Expire] has something to do; false: nothing is waited for.
func (g *Group) Deadline() (time.Time, bool) {
	var first time.Time
	earlier := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	earlier(g.rebalance.joinBy)
	earlier(g.rebalance.syncBy)
	if _, t, ok := g.pending.due.First(); ok {
		earlier(t)
	}
	for _, m := range g.members {
		if t, ok := m.deadline(); ok {
			earlier(t)
		}
	}
	return first, !first.IsZero()
}

// Expire does what is due. It may be called at any time.
func (g *Group) Expire(now time.Time) {
	g.expirePending(now)
	g.expireSessions(now)
	if due(g.rebalance.joinBy, now) {
		g.joinTimer(now)
	}
	if due(g.rebalance.syncBy, now) {
		g.syncTimer(now)
	}
}

func due(t, now time.Time) bool { return !t.IsZero() && !t.After(now) }

// expirePending takes back the member IDs that nobody has joined with.
func (g *Group) expirePending(now time.Time) {
	if g.pending.expire(now) && g.state == preparing {
		g.completeIfJoined(now)
	}
}

// expireSessions drops the members that were not heard of.
func (g *Group) expireSessions(now time.Time) {
	dropped := g.dropAll(now, func(m *member) bool {
		t, ok := m.deadline()
		return ok && due(t, now)
	})
	if dropped {
		g.prepareOrComplete(now)
	}
}

// syncTimer drops the members that have not asked for their assignments: whoever does not
// want them, or the leader that does not make them, must not hold up the others.
func (g *Group) syncTimer(now time.Time) {
	g.dropAll(now, func(m *member) bool { return m.unsynced })
	g.prepare(now)
}
