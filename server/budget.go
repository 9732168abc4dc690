package server

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// budget bounds the bytes of requests in memory. A request takes bytes as they
// arrive, not as they are claimed, so a peer that sends nothing holds nothing.
//
// Half-read requests hold at most half of it: the rest is for those that have arrived
// whole, so that peers who stop in the middle hold up nobody who does not.
//
// The oldest request that is still being read does not wait for other half-read
// ones: whatever they hold it comes to its end, so they cannot wait for one another
// for ever, and a request larger than the whole budget is admitted alone.
type budget struct {
	limit int64
	mu    struct { // read and written by every connection's reader
		sync.Mutex
		used    int64         // by all
		whole   int64         // by requests that were read to their end: given back without further reading
		reading list.List     // of *claim, oldest first: those not read to their end
		sending list.List     // of *claim, oldest first: answers that are on their way
		changed chan struct{} // closed, and renewed, when something was given back
	}
}

// claim is one request's part of a budget. It belongs to one connection, which
// takes in its reader and releases once, anywhere.
type claim struct {
	b    *budget
	n    int64
	elem *list.Element // nil once it is read to its end
	// sent is its place among the answers that are on their way, since then; cut ends that.
	sent  *list.Element
	since time.Time
	cut   func()
}

func newBudget(limit int64) *budget {
	b := &budget{limit: limit}
	b.mu.changed = make(chan struct{})
	return b
}

// begin registers a request whose bytes are about to be read.
func (b *budget) begin() *claim {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &claim{b: b}
	c.elem = b.mu.reading.PushBack(c)
	return c
}

// take waits until n more bytes may be held, or ctx ends. whole tells that the
// request needs nothing more from its peer.
func (c *claim) take(ctx context.Context, n int64, whole bool) error {
	for {
		changed, ok := c.tryTake(n, whole)
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *claim) tryTake(n int64, whole bool) (<-chan struct{}, bool) {
	b := c.b
	b.mu.Lock()
	defer b.mu.Unlock()
	// The oldest overdraws when all is held by half-read requests, so that what is
	// used is never more than the limit and one request.
	oldest := b.mu.reading.Front() == c.elem
	room := b.mu.used+n <= b.limit && (whole || oldest || b.mu.used-b.mu.whole+n <= b.limit/2)
	if room || oldest && b.mu.whole == 0 {
		b.mu.used += n
		c.n += n
		return nil, true
	}
	return b.mu.changed, false
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
	c.n = n
	c.b.mu.whole += n
	c.since, c.cut = now, cut
	c.sent = c.b.mu.sending.PushBack(c)
	c.leave()
	c.b.wake()
}

// cutSlow ends the oldest answer on its way, if that began before some time.
func (b *budget) cutSlow(before time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := b.mu.sending.Front()
	if first == nil {
		return
	}
	if c := first.Value.(*claim); c.since.Before(before) {
		b.mu.sending.Remove(first)
		c.sent = nil
		c.cut()
	}
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
