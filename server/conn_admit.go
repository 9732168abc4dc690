package server

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// When a connection may read its next request, and what memory that is read into.

// admit opens a claim for a request's bytes and tells what each of them weighs.
func (c *conn) admit(a *api, h head) (claim *claim, weight int64, err error) {
	defer func() {
		if claim != nil {
			claim.cut, claim.size = c.tooSlow, int64(h.size)
		}
	}()
	if a.records {
		return c.s.queued.begin(), 1, nil
	}
	if h.size > controlMax {
		return nil, 0, fmt.Errorf("%w: %d for %s", errSize, h.size, kmsg.NameForKey(h.key))
	}
	if err := c.awaitUndone(h.size); err != nil {
		return nil, 0, err
	}
	weight = controlWeight
	if k := kmsg.Key(h.key); k == kmsg.SASLHandshake || k == kmsg.SASLAuthenticate {
		weight = saslWeight
	}
	return c.incoming(h.size).begin(), weight, nil
}

// incoming is the budget of a request without records that is read.
func (c *conn) incoming(size int32) *budget {
	switch {
	case !c.auth.trusted():
		return c.s.strangers
	case large(size):
		return c.s.large
	}
	return c.s.control
}

// large reports whether a request of that size without records is not read ahead.
func large(size int32) bool { return size > largeControl }

// awaitUndone waits until a request without records may be read: a large one until all before
// it are answered.
func (c *conn) awaitUndone(size int32) error {
	var err error
	switch {
	case large(size):
		err = c.awaitAnswers()
	case c.undone.TryAcquire(int64(size)):
		return nil
	default:
		err = c.undone.Acquire(c.ctx, int64(size))
	}
	return cmp.Or(err, c.deadline(pieceTimeout))
}

// decoding claims what a request may take once it is decoded, of budgets of their own: requests
// that fit the buffer, whose claim has that in it already, wait for no others, and those that are
// not large for no large ones, which may keep theirs for a while.
func (c *conn) decoding(h head, n int, read *claim, weight int64) (*claim, error) {
	most := int64(n) * weight
	if read.n >= most {
		return nil, nil
	}
	d := c.s.decoding.begin()
	if large(h.size) {
		d = c.s.decoded.begin()
	}
	return d, d.take(c.ctx, most, true)
}

// mostBytes bounds a request.
func (c *conn) mostBytes() int64 {
	if c.auth.trusted() {
		return c.s.cfg.RequestMaxBytes
	}
	return min(c.auth.maxReceive, c.s.cfg.RequestMaxBytes)
}

// awaitRequest waits for a request's first byte, as long as a connection may idle.
// One that waits for an answer does not idle.
func (c *conn) awaitRequest(br *bufio.Reader) error {
	for {
		if err := c.awaitUnmuted(); err != nil {
			return err
		}
		if err := c.deadline(c.s.cfg.MaxIdle); err != nil {
			return err
		}
		_, err := br.Peek(1)
		if err == nil && c.isMuted() > 0 { // since it began to wait
			continue
		}
		if err == nil {
			return c.deadline(pieceTimeout)
		}
		late := !c.auth.trusted() && !time.Now().Before(c.auth.until)
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.open.Load() == 0 || c.s.draining() || late {
			return err
		}
	}
}

func (c *conn) extend() { _ = c.deadline(pieceTimeout) }

// deadline bounds the next read, but never lifts the end that drain has set, nor that of the
// time that a client has to authenticate.
func (c *conn) deadline(d time.Duration) error {
	end := time.Now().Add(d)
	if !c.auth.trusted() && c.auth.until.Before(end) {
		end = c.auth.until
	}
	if err := c.nc.SetReadDeadline(end); err != nil {
		return err
	}
	if c.s.draining() {
		c.drain()
	}
	return nil
}
