package quota

import (
	"net/netip"
	"time"

	"kaas.dev/kaas/projections"
)

// Unlimited is a rate of new connections that nobody reaches.
const Unlimited = 1<<31 - 1

// Accept notes a new connection to a listener, and returns how long the listener's next one
// has to wait, where rates of new connections are set for it or for the whole broker: never
// longer than a sample takes (KIP-612). A listener that counts for itself does not use up
// what the broker has.
func (m *Manager) Accept(listener string, ofListener, ofBroker int64, itself bool) time.Duration {
	wait := time.Duration(0)
	if !itself {
		wait = m.accept("", ofBroker)
	}
	return max(wait, m.accept("listener "+listener, ofListener))
}

func (m *Manager) accept(of string, bound int64) time.Duration {
	if bound >= Unlimited {
		return 0
	}
	now, w := m.ms(), m.window[request]
	x := m.accepts.lock(of, now)
	defer x.mu.Unlock()
	x.record(w, 1, now)
	x.keep(w, now, 0)
	return round(min(x.rate.wait(w, float64(max(bound, 1)), now), float64(w.ms)))
}

// Connect asks whether an address may have a new connection. Where it returns a time it may
// not, nothing is noted, and the connection is to be closed after that time, so that whoever
// comes again at once gains nothing.
func (m *Manager) Connect(q *projections.Quotas, from netip.Addr) time.Duration {
	if q == nil {
		return 0
	}
	bound, ok := m.of(q).of(from)
	if !ok {
		return 0
	}
	now, w := m.ms(), m.window[request]
	x := m.ips.lock(from, now)
	defer x.mu.Unlock()
	x.record(w, 1, now)
	x.keep(w, now, 0)
	wait := round(min(x.rate.wait(w, bound, now), float64(w.ms)))
	if wait > 0 {
		x.record(w, -1, now)
	}
	return wait
}
