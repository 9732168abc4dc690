package server

import (
	"errors"
	"io"
	"net"
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
