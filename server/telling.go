package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// freeAnswer is what an answer may have without being counted.
	freeAnswer = 64 << 10
	// mostAnswer bounds an answer, in bytes: many clients read no longer ones.
	mostAnswer = 100_000_000
	// answerWeight is what a byte of an answer takes in memory while the answer is made.
	answerWeight = 4
	// elementBytes is about what an element of an answer has besides its names.
	elementBytes = 64
	// slowReader is for how long an answer may be on its way while others wait for its room.
	slowReader = 10 * time.Second
)

var (
	errAnswer = fmt.Errorf("the answer would have more than %d bytes: less has to be asked for at once", mostAnswer)
	errNoRoom = errors.New("there was no room to make the answer in")
)

// telling is the memory of an answer whose length is not bounded by its request's. It is taken
// from a budget of all connections, before each part is made, until the answer is sent.
type telling struct {
	budget *budget
	conn   *conn
	mu     struct { // of all who make parts of the answer
		sync.Mutex
		n     int64
		claim *claim // nil as long as the answer is small
		err   error  // why there is none
	}
}

// room reports whether there is room for n more bytes of a request's answer; if not, nothing
// more of it need be made, for nobody is there to read it, or it would be too long.
func (r *request) room(n int) bool {
	t := r.telling
	if t == nil {
		return true
	}
	c, err := t.count(int64(n))
	if err == nil && c != nil {
		err = t.take(c, int64(n))
	}
	if err == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.err == nil {
		t.mu.err = err
	}
	return false
}

// count adds to the length, and returns what to take it of.
func (t *telling) count(n int64) (*claim, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.n += n
	switch {
	case t.mu.err != nil:
		return nil, t.mu.err
	case t.conn.ctx.Err() != nil:
		return nil, context.Cause(t.conn.ctx)
	case t.mu.n > mostAnswer:
		return nil, errAnswer
	case t.mu.n > freeAnswer && t.mu.claim == nil:
		t.mu.claim = t.budget.begin()
	}
	return t.mu.claim, nil
}

func (t *telling) take(c *claim, n int64) error {
	wait, cancel := context.WithTimeoutCause(t.conn.ctx, pieceTimeout, errNoRoom)
	defer cancel()
	return c.take(wait, n*answerWeight, false)
}

func (t *telling) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.err
}

// tells counts an answer that is made, if it is long and nothing of it was counted.
func (r *request) tells(n int) error {
	if n <= freeAnswer || r.telling.held() != nil {
		return nil
	}
	t := &telling{budget: r.conn.s.told, conn: r.conn}
	t.mu.claim = t.budget.begin()
	r.telling = t
	wait, cancel := context.WithTimeoutCause(r.conn.ctx, pieceTimeout, errNoRoom)
	defer cancel()
	if t.mu.claim.take(wait, int64(n), false) != nil {
		return context.Cause(wait)
	}
	return nil
}

// made says that the answer is n bytes that are on their way.
func (t *telling) made(n int) {
	if c := t.held(); c != nil {
		c.send(int64(n), time.Now(), func() { t.conn.cancel(errSlow) })
	}
}

func (t *telling) release() {
	if c := t.held(); c != nil {
		c.release()
	}
}

func (t *telling) held() *claim {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.claim
}

var errSlow = errors.New("a long answer was read slowly, and others waited for its room")

// widely starts a request whose answer may be long, whatever the request is, once all earlier
// ones of its connection are answered, so that a connection has one such answer at a time. What
// it takes is counted; when the client has gone nothing is made.
func (s *Server) widely(a *api, r *request) (reply, error) {
	return later(func(ctx context.Context) (kmsg.Response, error) {
		<-r.turn
		if r.conn.ctx.Err() != nil {
			return nil, context.Cause(r.conn.ctx)
		}
		r.telling = &telling{budget: s.told, conn: r.conn}
		began := time.Now()
		rep, err := s.run(ctx, a, r)
		r.took += time.Since(began)
		if err == nil && rep.wait != nil {
			rep.resp, err = rep.wait(ctx)
		}
		if failed := r.telling.failed(); failed != nil {
			return nil, fmt.Errorf("%s version %d: %w", kmsg.NameForKey(r.key), r.version, failed)
		}
		return rep.resp, err
	})
}

// distinct are the elements of a list without repeats, by a key that tells them apart.
func distinct[T any, K comparable](list []T, key func(*T) K) []T {
	seen := make(map[K]bool, len(list))
	out := list[:0:0]
	for i := range list {
		if k := key(&list[i]); !seen[k] {
			seen[k] = true
			out = append(out, list[i])
		}
	}
	return out
}

// itself is the key of what is told apart as it is.
func itself[T comparable](x *T) T { return *x }
