package quota

import (
	"crypto/sha256"
	"sync"
)

const (
	// maxMeasures is how many clients are told apart in one kind of quota.
	maxMeasures = 20_000
	// longName is the longest name that is kept; of longer ones their hash is.
	longName = 200
	// firstSweep is from how many on it is worth to look for those that say nothing, and
	// sweepEvery how often, in ms, at most.
	firstSweep = 1024
	sweepEvery = 1000
)

// measure is what those who share a quota have used.
type measure struct {
	mu sync.Mutex // guards all the rest
	rate
	bucket
	admitted float64 // bytes that may come and have not
	until    int64   // ms; from when on it says nothing
	gone     bool    // it is in no map any more
}

// measures are those of one kind, by who shares them.
type measures[K comparable] struct {
	mu struct {
		sync.RWMutex
		by    map[K]*measure
		more  int   // how many it takes to look for those that say nothing
		swept int64 // ms; when that was done last
	}
	others measure // of all that are too many
}

func newMeasures[K comparable]() *measures[K] {
	m := new(measures[K])
	m.mu.by, m.mu.more = map[K]*measure{}, firstSweep
	return m
}

// lock returns a measure, locked.
func (m *measures[K]) lock(key K, now int64) *measure {
	for {
		m.mu.RLock()
		x := m.mu.by[key]
		m.mu.RUnlock()
		if x == nil {
			x = m.add(key, now)
		}
		x.mu.Lock()
		if !x.gone {
			return x
		}
		x.mu.Unlock()
	}
}

func (m *measures[K]) add(key K, now int64) *measure {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := m.mu.by[key]; x != nil {
		return x
	}
	if len(m.mu.by) >= m.mu.more && now-m.mu.swept >= sweepEvery {
		m.sweep(now)
	}
	if len(m.mu.by) >= maxMeasures {
		return &m.others
	}
	x := &measure{until: now + sweepEvery}
	m.mu.by[key] = x
	return x
}

func (m *measures[K]) sweep(now int64) {
	m.mu.swept = now
	for k, x := range m.mu.by {
		if x.drop(now) {
			delete(m.mu.by, k)
		}
	}
	m.mu.more = max(firstSweep, min(2*len(m.mu.by), maxMeasures))
}

// drop ends a measure that says nothing.
func (x *measure) drop(now int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.gone = now >= x.until
	return x.gone
}

// short is a name that is not too long to be kept.
func short(name string) string {
	if len(name) <= longName {
		return name
	}
	h := sha256.Sum256([]byte(name))
	return string(h[:])
}
