package server

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// budget bounds the bytes of requests in memory. A request takes bytes as they
// arrive, not as they are claimed, so a peer that sends nothing holds nothing.
//
// Three kinds are judged apart, so that who stops in the middle holds up nobody who does not:
//   - requests that have come whole wait for such alone, which have all of the limit;
//   - half-read ones have half of it, beside whole ones;
//   - the oldest half-read one waits for whole ones alone, and none waits for it. So half-read
//     requests cannot wait for one another for ever, and one that is larger than all there is
//     comes to its end.
//
// What is used is never more than the limit, half of it, and one request; and one more, of
// whoever has waited for a while. Who waits for a half-read one has those cut off that are slow,
// or stand still, and large ones leave some of their half to small ones.
type budget struct {
	limit int64
	exact bool     // who has waited for a while does not exceed the limit beside others
	mu    struct { // read and written by every connection's reader
		sync.Mutex
		used    int64         // by all
		whole   int64         // by requests that were read to their end: given back without further reading
		reading list.List     // of *claim, oldest first: those that are half read, since they first took something
		sending list.List     // of *claim, oldest first: answers that are on their way
		cut     time.Time     // when one was last cut off that was slow, but did not stand still
		changed chan struct{} // closed, and renewed, when something was given back
	}
}

const (
	// pressAfter is how long a claim waits until it presses, and until it does again.
	pressAfter = time.Second
	// slowSender is how long a request may be half read while others wait for its room, and
	// standStill how long with less than leastRate bytes a second.
	slowSender = 30 * time.Second
	standStill = 2 * time.Second
	leastRate  = 16 << 10
)

var errSlowSender = errors.New("a request came slowly, and others waited for its room")

// claim is one request's part of a budget. It belongs to one connection, which
// takes in its reader and releases once, anywhere.
type claim struct {
	b    *budget
	n    int64
	elem *list.Element // while it is half read
	// sent is its place among the answers that are on their way.
	sent *list.Element
	// since is when it began to be half read, the time that it waited for room left out, or to
	// be on its way.
	since time.Time
	// cut ends what it is of, if that is slow; nil if it may take its time.
	cut func()
	// hurry has an answer be made at once that may wait, if it is not nil.
	hurry func()
	// waits is since when it waits for room, waited that it had to, patient that it did for a while.
	waits           time.Time
	waited, patient bool
	// size is the bytes of a request as it said; came those that have been read since it was
	// half read, of which it had seen at seenAt, if that was looked at.
	size   int64
	came   atomic.Int64
	seen   int64
	seenAt time.Time
}

func newBudget(limit int64) *budget {
	b := &budget{limit: limit}
	b.mu.changed = make(chan struct{})
	return b
}

// begin is for a request whose bytes are about to be read.
func (b *budget) begin() *claim { return &claim{b: b} }

// take waits until n more bytes may be held, or ctx ends. whole tells that the
// request needs nothing more from its peer, and has taken nothing before.
func (c *claim) take(ctx context.Context, n int64, whole bool) error {
	changed, ok := c.tryTake(n, whole)
	if ok {
		return nil
	}
	tick := time.NewTicker(pressAfter)
	defer tick.Stop()
	for !ok {
		select {
		case <-changed:
		case <-tick.C:
			c.press(n)
		case <-ctx.Done():
			return ctx.Err()
		}
		changed, ok = c.tryTake(n, whole)
	}
	return nil
}

func (c *claim) tryTake(n int64, whole bool) (<-chan struct{}, bool) {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !whole && c.elem == nil {
		c.since = time.Now()
		c.elem = b.mu.reading.PushBack(c)
	}
	if !c.room(n) {
		if c.waits.IsZero() {
			c.waits = time.Now()
		}
		return b.mu.changed, false
	}
	if !c.waits.IsZero() {
		c.since = c.since.Add(time.Since(c.waits))
		c.waits, c.waited = time.Time{}, true
		c.seenAt = time.Time{}
	}
	b.mu.used += n
	if c.n += n; c.elem == nil {
		b.mu.whole += n
	}
	return nil, true
}

// room reports whether it may take n more.
func (c *claim) room(n int64) bool {
	b := c.b
	if c.elem != nil && !c.oldest() {
		return c.roomOfHalf(n) && b.mu.whole+b.half()+n <= b.limit
	}
	mine := n
	if c.elem != nil {
		mine += c.n
	}
	return b.mu.whole+mine <= b.limit || b.mu.whole == 0 || c.patient && b.mu.whole <= b.limit
}

// roomOfHalf reports whether half-read requests leave it room for n more. The larger it is, the
// more it leaves itself to smaller ones.
func (c *claim) roomOfHalf(n int64) bool {
	half := c.b.limit / 2
	most := half
	switch {
	case c.size > 1<<20:
		most -= half / 2
	case c.size > 128<<10:
		most -= half / 4
	case c.size > 16<<10:
		most -= half / 8
	}
	return c.b.half()+n <= most
}

func (c *claim) oldest() bool { return c.b.mu.reading.Front() == c.elem }

// half is what half-read requests hold but the oldest.
func (b *budget) half() int64 {
	n := b.mu.used - b.mu.whole
	if first := b.mu.reading.Front(); first != nil {
		n -= first.Value.(*claim).n
	}
	return n
}

// press is for who has waited for n for a while. What is slow and in the way of it ends.
func (c *claim) press(n int64) {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	c.patient = !b.exact
	now := time.Now()
	for e := b.mu.sending.Front(); e != nil; e = e.Next() {
		if a := e.Value.(*claim); a.hurry != nil {
			a.hurry()
			a.hurry, a.since = nil, now
		}
	}
	if first := b.mu.sending.Front(); first != nil {
		if a := first.Value.(*claim); a.since.Before(now.Add(-slowReader)) {
			b.mu.sending.Remove(first)
			a.sent = nil
			a.cut()
		}
	}
	if c.elem == nil || c.oldest() || c.roomOfHalf(n) {
		return
	}
	for e := b.mu.reading.Front(); e != nil; e = e.Next() {
		r := e.Value.(*claim)
		if r.cut == nil || !r.waits.IsZero() {
			continue
		}
		slow := r.since.Before(now.Add(-slowSender)) && !b.mu.cut.After(now.Add(-pressAfter))
		if !r.standsStill(now) {
			if !slow {
				continue
			}
			b.mu.cut = now // of those that go on, one at a time: the next may not have to
		}
		r.cut()
		r.cut = nil
	}
}

// standsStill reports whether next to nothing came of it for a while. The caller holds mu.
func (c *claim) standsStill(now time.Time) bool {
	came, past := c.came.Load(), now.Sub(c.seenAt)
	switch {
	case c.seenAt.IsZero():
		c.seen, c.seenAt = came, now
		return false
	case past < standStill:
		return false
	}
	still := float64(came-c.seen) < leastRate*past.Seconds()
	c.seen, c.seenAt = came, now
	return still
}

// received says that its bytes have come, though it is half read still as far as others go.
func (c *claim) received() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.cut = nil
}

// complete says that the request was read to its end.
func (c *claim) complete() {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	if c.elem != nil {
		c.b.mu.whole += c.n
	}
	c.leave()
}

// release gives back whatever the request holds. Further calls do nothing.
func (c *claim) release() {
	if c == nil {
		return
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.mu.used -= c.n
	if c.elem == nil {
		c.b.mu.whole -= c.n
	}
	c.n = 0
	if c.sent != nil {
		c.b.mu.sending.Remove(c.sent)
		c.sent = nil
	}
	c.leave()
	c.b.wake()
}

// send is complete for an answer that is made, and takes n bytes until it is sent.
func (c *claim) send(n int64, now time.Time, cut func()) {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	c.b.mu.used -= c.n - n
	if c.elem == nil {
		c.b.mu.whole -= c.n
	}
	c.n = n
	c.b.mu.whole += n
	c.since, c.cut = now, cut
	c.sent = c.b.mu.sending.PushBack(c)
	c.leave()
	c.b.wake()
}

// pass moves what a request holds, read to its end, to a new claim.
func (c *claim) pass() *claim {
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	held := &claim{b: c.b, n: c.n}
	c.n = 0
	return held
}

func (c *claim) leave() {
	if c.elem != nil {
		c.b.mu.reading.Remove(c.elem)
		c.elem = nil
		c.b.wake()
	}
}

func (b *budget) wake() {
	close(b.mu.changed)
	b.mu.changed = make(chan struct{})
}
