package quota

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"kaas.dev/kaas/projections"
)

// Config is how use is measured: quota.window.num and quota.window.size.seconds, and the same
// of the controller for mutations.
type Config struct {
	Samples         int
	Sample          time.Duration
	MutationSamples int
	MutationSample  time.Duration
	Now             func() time.Time // nil: time.Now
}

// Manager measures what the clients of a broker use.
type Manager struct {
	now     func() time.Time
	began   time.Time
	window  [kinds]window
	limits  atomic.Pointer[limits]
	clients [kinds]*measures[Client]
	ips     *measures[netip.Addr]
	accepts *measures[string] // by listener; "" is the broker
}

// New makes a manager that knows of no use yet.
func New(cfg Config) *Manager {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	m := &Manager{now: cfg.Now, began: cfg.Now(), ips: newMeasures[netip.Addr](), accepts: newMeasures[string]()}
	for k := range m.clients {
		m.clients[k], m.window[k] = newMeasures[Client](), window{cfg.Samples, cfg.Sample.Milliseconds()}
	}
	m.window[mutation] = window{cfg.MutationSamples, cfg.MutationSample.Milliseconds()}
	return m
}

// ms is the time, above 0. It does not jump where the clock is set.
func (m *Manager) ms() int64 { return m.now().Sub(m.began).Milliseconds() + 1 }

func (m *Manager) of(q *projections.Quotas) *limits {
	l := m.limits.Load()
	if l == nil || l.from != q {
		l = newLimits(q)
		m.limits.Store(l)
	}
	return l
}

// find locks the measure of a client that has a quota; nil if it has none.
func (m *Manager) find(q *projections.Quotas, k kind, c Client) (x *measure, bound float64, now int64) {
	if q == nil {
		return nil, 0, 0
	}
	bound, shared, ok := m.of(q).clients[k].find(c)
	if !ok {
		return nil, 0, 0
	}
	now = m.ms()
	return m.clients[k].lock(Client{short(shared.User), short(shared.ID)}, now), bound, now
}

// keep notes from when on a measure says nothing, if nothing is used any more.
func (x *measure) keep(w window, now int64, wait float64) {
	x.until = max(x.until, now+w.whole()+int64(min(wait, math.MaxInt32)))
}

// round is a wait in whole milliseconds, as it is told to clients.
func round(ms float64) time.Duration {
	return time.Duration(math.Round(min(ms, math.MaxInt32))) * time.Millisecond
}

// Produce notes that a client has sent so many bytes and returns how long it has to wait.
func (m *Manager) Produce(q *projections.Quotas, c Client, bytes int) time.Duration {
	x, bound, now := m.find(q, produce, c)
	if x == nil {
		return 0
	}
	defer x.mu.Unlock()
	w := m.window[produce]
	x.record(w, float64(bytes), now)
	x.fill(bound, spread(w, bound), now)
	x.tokens -= float64(bytes)
	wait := max(x.rate.wait(w, bound, now), x.bucket.wait(bound))
	x.keep(w, now, wait)
	return round(wait)
}

// Admit asks whether so many bytes may come of a client, by a connection that has sent nothing
// yet. Where it returns a time they may not before that. Otherwise they count for further such
// connections until done is called, when they are noted or do not come.
func (m *Manager) Admit(q *projections.Quotas, c Client, bytes int) (wait time.Duration, done func()) {
	x, bound, now := m.find(q, produce, c)
	if x == nil {
		return 0, func() {}
	}
	defer x.mu.Unlock()
	w := m.window[produce]
	x.fill(bound, spread(w, bound), now)
	ahead := bucket{tokens: x.tokens - x.admitted}
	if wait := round(max(x.rate.wait(w, bound, now), ahead.wait(bound))); wait > 0 {
		return wait, func() {}
	}
	x.admitted += float64(bytes)
	return 0, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.admitted -= float64(bytes)
	}
}

// spread is what a client may send at once without being slowed down.
func spread(w window, bound float64) float64 { return bound * float64(w.ms) / 1000 }

// Fetch asks whether a client may be sent so many bytes. Where it has to wait, nothing is
// noted, and it is to be sent nothing. Whoever was sent nothing lately does not, however large
// a batch may be: it would never be small enough.
func (m *Manager) Fetch(q *projections.Quotas, c Client, bytes int) time.Duration {
	x, bound, now := m.find(q, fetch, c)
	if x == nil {
		return 0
	}
	defer x.mu.Unlock()
	w := m.window[fetch]
	x.fill(bound, spread(w, bound), now)
	wait := x.bucket.wait(bound)
	used, _ := x.measure(w, now)
	x.record(w, float64(bytes), now)
	if used > 0 {
		wait = max(wait, x.rate.wait(w, bound, now))
	}
	if wait = math.Round(wait); wait > 0 {
		x.record(w, -float64(bytes), now)
	} else {
		x.tokens -= float64(bytes)
	}
	x.keep(w, now, wait)
	return round(wait)
}

// Most is how many bytes a client may be sent at once: more would have it wait for certain.
func (m *Manager) Most(q *projections.Quotas, c Client) int {
	if q == nil {
		return math.MaxInt
	}
	bound, _, ok := m.of(q).clients[fetch].find(c)
	if !ok {
		return math.MaxInt
	}
	return int(min(math.MaxInt32, spread(m.window[fetch], bound)))
}

// Measured reports whether the time that a client's requests take counts.
func (m *Manager) Measured(q *projections.Quotas, c Client) bool {
	if q == nil {
		return false
	}
	_, _, ok := m.of(q).clients[request].find(c)
	return ok
}

// Timed reports whether anybody's time is measured.
func (m *Manager) Timed(q *projections.Quotas) bool { return q != nil && m.of(q).clients[request].any }

// Request notes that a client's request has kept a thread for so long, and returns how long
// the client has to wait: never longer than a sample takes.
func (m *Manager) Request(q *projections.Quotas, c Client, took time.Duration) time.Duration {
	x, bound, now := m.find(q, request, c)
	if x == nil {
		return 0
	}
	defer x.mu.Unlock()
	w := m.window[request]
	x.record(w, 100*took.Seconds(), now)
	wait := x.rate.wait(w, bound, now)
	x.keep(w, now, 0)
	return round(min(wait, float64(w.ms)))
}

// Owes is for how long a client has to wait because of the time that its requests have taken,
// wherever that was: never longer than a sample takes. Nothing is noted.
func (m *Manager) Owes(q *projections.Quotas, c Client) time.Duration {
	x, bound, now := m.find(q, request, c)
	if x == nil {
		return 0
	}
	defer x.mu.Unlock()
	w := m.window[request]
	return round(min(x.rate.wait(w, bound, now), float64(w.ms)))
}

// Mutate asks whether a client may have so many partitions made or deleted. Where it is
// strict and the bucket is in debt it may not; otherwise they are noted. The client has to
// wait until the debt is paid.
func (m *Manager) Mutate(q *projections.Quotas, c Client, partitions int, strict bool) (wait time.Duration, ok bool) {
	x, bound, now := m.find(q, mutation, c)
	if x == nil {
		return 0, true
	}
	defer x.mu.Unlock()
	w := m.window[mutation]
	x.fill(bound, w.worth(bound), now)
	debt := x.bucket.wait(bound)
	if strict && debt > 0 {
		return round(debt), false
	}
	x.tokens -= float64(partitions)
	debt = x.bucket.wait(bound)
	x.keep(w, now, debt)
	if strict {
		return 0, true
	}
	return round(debt), true
}
