package consumer

import (
	"sync"
	"sync/atomic"
	"time"

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
		matches map[subscriber]*matched
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
		m.mu.matches, m.mu.sums = map[subscriber]*matched{}, map[string]sum{}
	}
	f()
}

// matched is what a pattern matches of what somebody may describe.
type matched struct {
	once   sync.Once
	known  atomic.Bool
	topics []*projections.Topic
}

// subscriber is a pattern and who has it; nil is one who may describe all.
type subscriber struct {
	who  any
	expr string
}

// matching returns the topics that who may describe and whose names the expression matches,
// by name. Whoever asks for the same meanwhile waits, and nobody else does. Where others wait
// for the caller it says only what is known.
func (c *Config) matching(t Topics, expr string, who Describer) ([]*projections.Topic, bool) {
	m, waiting := c.Memory, c.Unmatched != nil
	if m == nil {
		return c.match(t, expr, who), true
	}
	var of *matched
	m.look(t, func() {
		key := subscriber{expr: expr}
		if who != nil {
			key.who = who.Who()
		}
		if of = m.mu.matches[key]; of == nil && !waiting {
			of = &matched{}
			m.mu.matches[key] = of
		}
	})
	if waiting && (of == nil || !of.known.Load()) {
		return nil, false
	}
	of.once.Do(func() {
		of.topics = c.match(t, expr, who)
		of.known.Store(true)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.mu.topics == t { // else it is forgotten already
			m.mu.bytes += patternCost + len(expr) + 8*len(of.topics)
		}
	})
	return of.topics, true
}

func (c *Config) match(t Topics, expr string, who Describer) []*projections.Topic {
	defer c.spent(time.Now())
	re, err := pattern.Compile(expr)
	if err != nil {
		return nil // it was checked when it came; another build may read patterns otherwise
	}
	var out []*projections.Topic
	for _, topic := range t.Topics() {
		if (who == nil || who.Describes(topic.Name)) && re.MatchString(topic.Name) {
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
