package server

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/quota"
)

// throttled is why a client has to wait, as Kafka calls the kinds of quotas.
type throttled int64

const (
	byProduce throttled = iota
	byFetch
	byRequest
	byMutation
	throttledBy // how many there are
)

// throttleNames are the kinds as Kafka's metrics call them.
var throttleNames = [throttledBy]string{"produce", "fetch", "request", "controllermutation"}

// waits is for how long a request's client has to wait, the longest that was found, and why.
type waits struct{ v atomic.Int64 }

const waitKinds = 8

func (w *waits) add(why throttled, d time.Duration) {
	next := d.Milliseconds()*waitKinds + int64(why)
	for {
		old := w.v.Load()
		if old/waitKinds >= d.Milliseconds() || w.v.CompareAndSwap(old, next) {
			return
		}
	}
}

func (w *waits) get() (throttled, time.Duration) {
	v := w.v.Load()
	return throttled(v % waitKinds), time.Duration(v/waitKinds) * time.Millisecond
}

// client is whose quotas count for a request.
func (r *request) client() quota.Client { return quota.Client{User: r.principal.Name, ID: r.clientID} }

// slow has a request's client wait: nothing more is read from its connection until then,
// whether or not it heeds what it is told. Brokers that pass requests on do that themselves.
func (r *request) slow(why throttled, d time.Duration) {
	if d <= 0 {
		return
	}
	r.waits.add(why, d)
	if !r.exempt {
		r.conn.mute(d)
	}
}

// quotas are those of the newest view, nil without any.
func (s *Server) quotas() *projections.Quotas { return s.backend.View().Quotas() }

// busy counts what a request has been doing since then.
func (r *request) busy(began time.Time) { r.took += time.Since(began) }

// chargeTime counts the time that a request took and that is not counted yet.
func (s *Server) chargeTime(r *request) {
	spent := r.took - r.charged
	if q := s.quotas(); q != nil && !r.exempt && spent > 0 {
		r.charged = r.took
		r.slow(byRequest, s.quota.Request(q, r.client(), spent))
	}
}

// tellThrottle puts into an answer how long its client has to wait.
func (s *Server) tellThrottle(r *request, resp kmsg.Response) {
	if r.forwarded {
		r.forwardThrottle(resp)
		return
	}
	if resp != nil {
		s.chargeTime(r)
	}
	why, d := r.waits.get()
	if d == 0 {
		return
	}
	if t, ok := resp.(kmsg.SetThrottleResponse); ok {
		t.SetThrottle(int32(d.Milliseconds()))
	}
	s.metrics.throttled[why].Observe(d.Seconds())
}

// excuse has a request that brokers send not count, unless it is not one of theirs. With an
// authorizer brokers are who may act for the cluster, without one who comes by their listener.
func (s *Server) excuse(r *request) {
	if s.authorizer.on() {
		r.exempt = r.exempt || r.subject.Allows(acl.ClusterAction, acl.Cluster, acl.ClusterName)
	} else {
		r.exempt = r.exempt || r.conn.listener.Name == s.cfg.InterBroker
	}
}

// mutate asks whether a request may have so many partitions made or deleted. Clients that do
// not know the error of a version before strictSince are only made to wait.
func (s *Server) mutate(r *request, partitions int, strictSince int16) error {
	q := s.quotas()
	if q == nil {
		return nil
	}
	wait, ok := s.quota.Mutate(q, r.client(), partitions, r.asked >= strictSince)
	r.slow(byMutation, wait)
	if !ok {
		return fmt.Errorf("%w: %d partitions are more than the client's %s allows now", kerr.ThrottlingQuotaExceeded, partitions, projections.QuotaMutations)
	}
	return nil
}

var errMuted = errors.New("the connection was muted by a quota for longer than it may idle")

// mute has nothing read from the connection for so long.
func (c *conn) mute(d time.Duration) {
	until := int64(time.Since(c.began) + d)
	for {
		old := c.muted.Load()
		if old >= until || c.muted.CompareAndSwap(old, until) {
			return
		}
	}
}

// isMuted is for how long nothing is to be read, 0 or less if it may be.
func (c *conn) isMuted() time.Duration {
	until := c.muted.Load()
	if until == 0 {
		return 0
	}
	return time.Duration(until) - time.Since(c.began)
}

// awaitUnmuted waits until the connection may be read. One that is muted for longer than it
// may idle is closed, as in Kafka.
func (c *conn) awaitUnmuted() error {
	idle := c.s.cfg.MaxIdle
	for left := c.isMuted(); left > 0; left = c.isMuted() {
		if idle <= 0 {
			return errMuted
		}
		timer := time.NewTimer(min(left, idle))
		select {
		case <-timer.C:
			idle -= min(left, idle)
		case <-c.s.stop:
			timer.Stop()
			return errDraining
		case <-c.ctx.Done():
			timer.Stop()
			return c.ctx.Err()
		}
	}
	return nil
}

// settle ends what awaitQuota has begun, when the request was noted or does not come.
func (c *conn) settle() {
	if c.admitted != nil {
		c.admitted()
		c.admitted = nil
	}
}

// awaitQuota keeps the first Produce of a connection waiting, unread, where its client owes
// time for what it has sent by others, and any request that would gain by coming on another
// connection, or beside others: who hangs up while he is muted, and comes again, gains nothing.
func (c *conn) awaitQuota(br *bufio.Reader, a *api, h head) error {
	first := h.key == kmsg.Produce.Int16() && !c.produced
	if first {
		c.produced = true
	}
	q := c.s.quotas()
	timed := c.s.quota.Timed(q) && !a.inner && !c.excused
	if q == nil || !c.auth.trusted() || !first && !timed {
		return nil
	}
	id, err := peekClientID(br, int(h.size)-headBytes)
	if err != nil {
		return err
	}
	who := quota.Client{User: c.principal.Name, ID: textOf(id)}
	if timed {
		err = c.awaitTime(q, who)
	}
	if err == nil && first {
		err = c.awaitBytes(who, int(h.size))
	}
	return cmp.Or(err, c.deadline(pieceTimeout))
}

// awaitTime keeps a request waiting whose client owes time for requests. If the last one of the
// connection was the same client's, its answer has the connection muted for that, but may be on
// its way still: so it is waited for. Else it may have been for others, and this one waits for as
// long as it would have been muted.
func (c *conn) awaitTime(q *projections.Quotas, who quota.Client) error {
	same := c.timed == who
	c.timed = who
	owes := c.s.quota.Owes(q, who)
	if owes == 0 {
		return nil
	}
	if err := c.awaitAnswers(); err != nil {
		return err
	}
	if !same {
		c.mute(owes)
	}
	return c.awaitUnmuted()
}

// awaitAnswers waits until all requests of the connection are answered.
func (c *conn) awaitAnswers() error {
	for c.open.Load() > 0 {
		select {
		case <-c.idle:
		case <-c.s.stop:
			return errDraining
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
	return nil
}

// awaitBytes waits until so many bytes of a client may come by a connection that has sent none.
func (c *conn) awaitBytes(who quota.Client, bytes int) error {
	for {
		wait, done := c.s.quota.Admit(c.s.quotas(), who, bytes)
		if wait == 0 {
			c.admitted = done
			return nil
		}
		c.mute(wait)
		if err := c.awaitUnmuted(); err != nil {
			return err
		}
	}
}

// peekClientID is the client ID of a request whose fixed part has been read, as far as there is
// room for it.
func peekClientID(br *bufio.Reader, rest int) (string, error) {
	if rest < 2 {
		return "", errHeader
	}
	b, err := br.Peek(2)
	if err != nil {
		return "", err
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	if n <= 0 {
		return "", nil
	}
	b, err = br.Peek(min(2+n, rest, br.Size()))
	if err != nil {
		return "", err
	}
	return string(b[2:]), nil
}
