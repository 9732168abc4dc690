package consumer

import (
	"sync"

	"kaas.dev/kaas/internal/pattern"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// How much a memory holds before it forgets all.
const (
	mostMatches = 8 << 20 // bytes of patterns and of what they match
	mostGroups  = 100_000
)

// patternCost is what a pattern takes besides its text.
const patternCost = 128

// Memory spares the work that gives the same result at nearly every heartbeat: what a
// pattern matches, and what the topics of a group's subscriptions look like. It holds that
// for one version of the topics, and forgets it at the first call with another. The zero
// value is empty; any number may use it at once.
type Memory struct {
	mu struct {
		sync.Mutex
		topics  Topics
		matches map[string][]*projections.Topic
		bytes   int            // that they take
		sums    map[string]sum // by group
	}
}

// sum is the hash of the topics that a membership subscribes to.
type sum struct {
	of   *groups.Consumer
	hash uint64
}

// look runs f with the memory for a version of the topics.
func (m *Memory) look(t Topics, f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.topics != t || m.mu.matches == nil || m.mu.bytes > mostMatches || len(m.mu.sums) > mostGroups {
		m.mu.topics, m.mu.bytes = t, 0
		m.mu.matches, m.mu.sums = map[string][]*projections.Topic{}, map[string]sum{}
	}
	f()
}

// matching returns the topics whose names the expression matches, by name. Others go on
// meanwhile: whoever sends an expression chooses how long that takes.
func (m *Memory) matching(t Topics, expr string) (out []*projections.Topic) {
	if m == nil {
		return matching(t, expr)
	}
	known := false
	m.look(t, func() { out, known = m.mu.matches[expr] })
	if known {
		return out
	}
	out = matching(t, expr)
	m.look(t, func() {
		if _, known := m.mu.matches[expr]; !known {
			m.mu.bytes += patternCost + len(expr) + 8*len(out)
		}
		m.mu.matches[expr] = out
	})
	return out
}

func matching(t Topics, expr string) []*projections.Topic {
	re, err := pattern.Compile(expr)
	if err != nil {
		return nil // it was checked when it came; another build may read patterns otherwise
	}
	var out []*projections.Topic
	for _, topic := range t.Topics() {
		if re.MatchString(topic.Name) {
			out = append(out, topic)
		}
	}
	return out
}

// sum returns the hash of what a group's members subscribe to, computed by f if it has to be.
func (m *Memory) sum(t Topics, group string, c *groups.Consumer, f func() uint64) (hash uint64) {
	if m == nil {
		return f()
	}
	known := false
	m.look(t, func() {
		s := m.mu.sums[group]
		hash, known = s.hash, s.of == c
	})
	if known {
		return hash
	}
	hash = f()
	m.look(t, func() { m.mu.sums[group] = sum{c, hash} })
	return hash
}
