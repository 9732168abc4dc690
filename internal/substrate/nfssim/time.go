package nfssim

import (
	"math"
	"time"
)

// opsPerSleep is how many calls share one sleep: a sleep costs as much as a call.
const opsPerSleep = 16

const (
	minPause = 100 * time.Microsecond
	maxPause = time.Minute
)

// pass lets time go by after a call: its share, and sometimes a long pause while
// calls are parked.
func (s *Sim) pass() {
	s.mu.Lock()
	var d time.Duration
	if s.rng.IntN(opsPerSleep) == 0 {
		d = time.Duration(s.rng.ExpFloat64() * opsPerSleep * float64(s.cfg.OpTime))
	}
	if s.chance(s.cfg.Pause) {
		d += time.Duration(float64(minPause) * math.Exp(s.rng.Float64()*math.Log(float64(maxPause/minPause))))
	}
	s.mu.Unlock()
	if d > 0 {
		time.Sleep(d)
	}
}

// await lets time go by until a call arrives, but no longer than the idle time so
// far, so that until is asked again soon and a long wait costs few steps.
func (s *Sim) await(idle time.Duration) time.Duration {
	limit := max(10*time.Millisecond, min(idle, 10*time.Second))
	s.mu.Lock()
	if s.idle == nil {
		s.idle = make(chan struct{}, 1)
	}
	select {
	case <-s.idle: // left from before
	default:
	}
	empty := len(s.arrived) == 0
	s.mu.Unlock()
	if !empty {
		return 0
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	begun := time.Now()
	select {
	case <-s.idle:
	case <-t.C:
	}
	return time.Since(begun)
}
