package server

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// pace is how often something may be done: so many times at once, then one more each time that
// so long has passed.
type pace struct {
	burst int
	every time.Duration
}

// take reports whether it may be done now, and then counts it. used is how far the burst is used
// up: now, when all of it is.
func (p pace) take(used *time.Time, now time.Time) bool {
	if p.fresh(*used, now) {
		*used = now.Add(-time.Duration(p.burst) * p.every)
	}
	if used.Add(p.every).After(now) {
		return false
	}
	*used = used.Add(p.every)
	return true
}

// fresh reports whether nothing of the burst is used up.
func (p pace) fresh(used, now time.Time) bool {
	return !used.After(now.Add(-time.Duration(p.burst) * p.every))
}

const (
	seldomBurst = 5
	seldomEvery = 2 * time.Second
)

// seldom bounds how often something is logged that others can bring about: a few times at
// once, then every 2 s.
type seldom struct {
	mu     sync.Mutex
	left   time.Time // see pace
	passed int64     // not allowed since the last that was
}

// allow reports whether to log now, and how many were passed over since the last time.
func (s *seldom) allow(now time.Time) (passed int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !(pace{seldomBurst, seldomEvery}).take(&s.left, now) {
		s.passed++
		return 0, false
	}
	passed, s.passed = s.passed, 0
	return passed, true
}

// ending is a kind of ends of connections. Each has its own budget in the log, so that
// nonsense by the thousand hides nobody who fails to authenticate.
type ending int

const (
	endNonsense ending = iota // what came is no request, or none that is served
	endLogin                  // who came has not authenticated, or not in time
	endNetwork                // the network, or silence
	endings
)

// ending is the kind of end that err is. It is for who has waited for the reader.
func (c *conn) ending(err error) ending {
	var network net.Error
	switch {
	case errors.Is(err, errLogin), errors.Is(err, errUnauthenticated), errors.Is(err, errExpired), !c.auth.trusted():
		return endLogin
	case errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF):
		return endNetwork
	}
	return endNonsense
}
