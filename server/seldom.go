package server

import (
	"sync"
	"time"
)

const (
	seldomBurst = 5
	seldomEvery = 2 * time.Second
)

// seldom bounds how often something is logged that others can bring about: a few times at
// once, then every 2 s.
type seldom struct {
	mu     sync.Mutex
	left   time.Time // how far the burst is used up: now, when all of it is
	passed int64     // not allowed since the last that was
}

// allow reports whether to log now, and how many were passed over since the last time.
func (s *seldom) allow(now time.Time) (passed int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if oldest := now.Add(-seldomBurst * seldomEvery); s.left.Before(oldest) {
		s.left = oldest
	}
	if s.left.Add(seldomEvery).After(now) {
		s.passed++
		return 0, false
	}
	s.left = s.left.Add(seldomEvery)
	passed, s.passed = s.passed, 0
	return passed, true
}
