package consumer

import (
	"testing"
	"testing/synctest"
	"time"

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
	cfg := &Config{Memory: m}
	cfg.matching(topics, "a.*", nil)
	cfg.matching(topics, "a.*", nil)
	if looks != 1 || m.mu.bytes == 0 {
		t.Errorf("matched %d times, %d bytes are kept", looks, m.mu.bytes)
	}
}

type sees map[string]bool

func (s *sees) Who() any { return s }

func (s *sees) Describes(topic string) bool { return (*s)[topic] }

// Who may describe no topic has none matched, and what one waits for does not keep others
// waiting.
func TestMatchingKeepsNobodyWaiting(t *testing.T) {
	w := newWorld(t, "a:1", "b:1", "c:1")
	m := &Memory{}
	alone, waiting := &Config{Memory: m}, &Config{Memory: m, Unmatched: new(bool)}
	hold, begun := make(chan struct{}), make(chan struct{})
	slow := &slowly{begun, hold}
	done := make(chan []*projections.Topic)
	go func() {
		out, _ := alone.matching(w.topics, ".*", slow)
		done <- out
	}()
	<-begun
	if _, ok := waiting.matching(w.topics, ".*", slow); ok {
		t.Error("what is not matched yet is known")
	}
	if out, ok := alone.matching(w.topics, "[ab]", &sees{"b": true, "c": true}); !ok || len(out) != 1 || out[0].Name != "b" {
		t.Errorf("another has %v", out)
	}
	close(hold)
	if out := <-done; len(out) != 3 {
		t.Errorf("%d topics", len(out))
	}
	if out, ok := waiting.matching(w.topics, ".*", slow); !ok || len(out) != 3 {
		t.Errorf("known are %v", out)
	}
}

type slowly struct{ begun, hold chan struct{} }

func (s *slowly) Who() any { return s }

func (s *slowly) Describes(topic string) bool {
	if topic == "a" {
		close(s.begun)
	}
	<-s.hold
	return true
}

// What patterns take is told, once: not what somebody else takes for the same, nor what nobody
// has to look for.
func TestMatchingTellsWhatItTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "a:1", "b:1", "c:1")
		cfg := &Config{Memory: &Memory{}}
		for _, want := range []time.Duration{3 * time.Second, 0} {
			told := time.Duration(0)
			cfg.Spent = func(d time.Duration) { told += d }
			if out, ok := cfg.matching(w.topics, "a|b|c", sleepy{}); !ok || len(out) != 3 || told != want {
				t.Errorf("%d topics, which took %v, want %v", len(out), told, want)
			}
		}
	})
}

// sleepy takes a second to say of a topic that it may be described.
type sleepy struct{}

func (sleepy) Who() any { return sleepy{} }

func (sleepy) Describes(string) bool {
	time.Sleep(time.Second)
	return true
}
