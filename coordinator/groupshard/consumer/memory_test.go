package consumer

import (
	"testing"

	"kaas.dev/kaas/projections"
)

// lookedAt are topics that notice who looks at them.
type lookedAt struct {
	*projections.Cluster
	look func()
}

func (l *lookedAt) Topics() []*projections.Topic {
	l.look()
	return l.Cluster.Topics()
}

// While a pattern is matched, which takes as long as its sender likes, the memory is everybody's.
func TestMatchingHoldsNobodyUp(t *testing.T) {
	m, looks := &Memory{}, 0
	topics := &lookedAt{Cluster: projections.NewCluster()}
	topics.look = func() {
		looks++
		if !m.mu.TryLock() {
			t.Fatal("others wait for the memory")
		}
		m.mu.Unlock()
	}
	m.matching(topics, "a.*")
	m.matching(topics, "a.*")
	if looks != 1 || m.mu.bytes == 0 {
		t.Errorf("matched %d times, %d bytes are kept", looks, m.mu.bytes)
	}
}
