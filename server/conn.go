package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/semaphore"

	"kaas.dev/kaas/server/auth"
	"kaas.dev/kaas/server/quota"
)

const (
	// maxInFlight is how many requests of one connection may be unanswered; the next
	// one is read when the oldest has been written.
	maxInFlight = 64
	// pieceTimeout is how long a peer may take for a piece of a request or an answer.
	pieceTimeout = 30 * time.Second
	writePiece   = 1 << 20
	// listenTime is how long a peer that has closed its side is answered.
	listenTime = 5 * time.Second
	// firstBuffer is what is read into until there was a request: many connect, and say
	// nothing or nothing that means something.
	firstBuffer = 512
	readBuffer  = 4 << 10
	// largeControl is the most of a request without records that may be read while earlier ones
	// of its connection are not answered, and mostAhead of all such together.
	largeControl = 64 << 10
	mostAhead    = 2 * largeControl
	// keepBuffer is the largest answer whose buffer is used again.
	keepBuffer = 8 << 20
)

// conn is one client's connection. Its reader, which runs it, starts requests in order, its
// writer answers them in order; what is between them waits side by side.
type conn struct {
	s        *Server
	nc       net.Conn
	listener *Endpoint // where it came in
	log      *slog.Logger

	ctx    context.Context // ends with the connection
	cancel context.CancelCauseFunc
	work   context.Context // ends with it, or earlier, when the broker cannot wait any longer
	queue  chan *pending   // from the reader to the writer, in the order of the wire
	open   atomic.Int64    // requests that were started and are not answered
	idle   chan struct{}   // is told when all that were started are answered
	// undone bounds the bytes of small requests without records that are not answered. Large
	// ones are not read before all earlier ones are answered; they and those with records are
	// bounded for all connections together.
	undone *semaphore.Weighted
	wg     sync.WaitGroup

	began    time.Time
	produced bool         // there was a Produce; owned by the reader
	timed    quota.Client // who sent the last request, where anybody's time counts; owned by the reader
	excused  bool         // a broker's, which passes on what others ask; owned by the reader
	admitted func()       // of the first one, which is being read; owned by the reader
	tooSlow  func()       // ends it for a request that came slowly
	muted    atomic.Int64 // until when nothing is read, in ns after began; see mute

	writes   bool     // the writer runs, which begins with the first request; owned by the reader
	writing  *pending // the newest that the writer came to
	answered atomic.Bool

	software  string          // what ApiVersions said, for the log; owned by the reader
	principal auth.Principal  // who is on it; owned by the reader
	auth      *authentication // how that is found out, nil without SASL; owned by the reader
	ended     error           // why the last answer is the last, or reading has ended; set before queue is closed

	host  netip.Addr // where it comes from
	known known      // owned by the reader
}

// pending is a request that was started and is not answered.
type pending struct {
	req   *request
	reply reply
	done  chan struct{} // closed when resp and err are set; nil when they are from the start
	resp  kmsg.Response
	raw   []byte // written in the place of resp, as it is
	err   error
	claim *claim
	held  *claim // what a large request takes until its answer is made
}

// drop releases what an answer holds that is not sent, or sent already.
func (p *pending) drop() {
	p.req.telling.release()
	if f, ok := p.resp.(*fetchAnswer); ok {
		f.release()
	}
}

// forget waits for an answer that is not sent, or was sent already.
func (p *pending) forget() {
	if p.done != nil {
		<-p.done
	}
	p.req.conn.s.chargeTime(p.req)
	p.req.auditRest()
	p.held.release()
	p.drop()
}

// made lets go of what the request was, once the answer is made.
func (p *pending) made() {
	p.reply, p.resp = reply{}, nil
}

var errLongHeld = errors.New("a large request took long, and others waited for its room")

var errDraining = errors.New("the broker is stopping")

func (s *Server) newConn(l *Endpoint, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, listener: l, queue: make(chan *pending, maxInFlight), idle: make(chan struct{}, 1), undone: semaphore.NewWeighted(mostAhead),
		principal: auth.Anonymous, began: time.Now(), host: hostOf(nc)}
	if s.cfg.identify != nil {
		c.principal = s.cfg.identify(nc)
	}
	if l := s.sasl[l.Name]; l != nil {
		c.auth = l.begin(c.began)
	}
	c.log = s.log.With("peer", nc.RemoteAddr().String())
	c.ctx, c.cancel = context.WithCancelCause(s.wire)
	c.tooSlow = func() { c.cancel(errSlowSender) }
	return c
}

// serve runs the connection to its end.
func (c *conn) serve() {
	stop := context.AfterFunc(c.ctx, c.hangUp)
	defer stop()
	if err := c.secure(); err != nil {
		c.refuse(err)
		return
	}
	work, done := context.WithCancel(c.ctx)
	defer done()
	defer context.AfterFunc(c.s.life, done)()
	c.work = work
	err := c.read()
	var last *lastAnswer
	switch {
	case errors.As(err, &last):
		c.ended = last.why
	case !errors.Is(err, errDraining):
		c.ended = err // the writer may be the first to say so
	}
	close(c.queue) // the writer still answers what was started
	switch {
	case !c.writes:
		c.cancel(c.ended)
	case last != nil, errors.Is(err, errDraining):
	case err == io.EOF: // who sends no more may listen still
		defer time.AfterFunc(listenTime, func() { c.cancel(io.EOF) }).Stop()
	default:
		c.cancel(err)
	}
	c.wg.Wait()
	c.hangUp()
	c.s.tellLost(c)
	c.logEnd(context.Cause(c.ctx))
}

// logEnd tells of the end. Anybody can have a connection end as often as they like: what is
// logged of it is bounded.
func (c *conn) logEnd(err error) {
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, syscall.EPIPE):
		c.log.Debug("connection ended", "software", c.software)
	default:
		if passed, ok := c.s.ends[c.ending(err)].allow(time.Now()); ok {
			c.log.Info("connection closed", "listener", c.listener.Name, "cause", fmt.Sprintf("%.*s", longestCause, err.Error()),
				"software", fmt.Sprintf("%.*s", longestCause, c.software), "not_logged_before", passed)
		}
	}
}

// drain makes the reader stop soon.
func (c *conn) drain() { _ = c.nc.SetReadDeadline(*c.s.lastRead.Load()) }

// read starts requests until the connection fails, drains, or breaks the protocol.
func (c *conn) read() error {
	br := bufio.NewReaderSize(c.nc, firstBuffer)
	for {
		if c.writes && br.Size() < readBuffer && br.Buffered() == 0 {
			br = bufio.NewReaderSize(c.nc, readBuffer)
		}
		p, err := c.next(br)
		if err != nil {
			if c.s.draining() {
				return errDraining
			}
			return err
		}
		if c.open.Add(1); !c.writes {
			c.writes = true
			c.wg.Go(c.runWriter)
		}
		last := p.reply.last
		c.queue <- p // until the end somebody takes it
		if last != nil {
			return &lastAnswer{last}
		}
	}
}

// lastAnswer ends reading, but not what was started.
type lastAnswer struct{ why error }

func (l *lastAnswer) Error() string { return l.why.Error() }

// next reads, decodes and starts one request.
func (c *conn) next(br *bufio.Reader) (p *pending, err error) {
	if err := c.awaitRequest(br); err != nil {
		return nil, err
	}
	if c.auth != nil && c.auth.stage == stageRaw {
		return c.nextToken(br)
	}
	h, err := readHead(br, c.mostBytes())
	if err != nil {
		return nil, err
	}
	if err := c.auth.admit(h.key, time.Now()); err != nil {
		return nil, err
	}
	a := apiFor(h.key)
	if !c.serves(a, h.version) && h.key != kmsg.ApiVersions.Int16() {
		return nil, fmt.Errorf("%s version %d is not served", kmsg.NameForKey(h.key), h.version)
	}
	defer c.settle()
	if err := c.awaitQuota(br, a, h); err != nil {
		return nil, err
	}
	claim, weight, err := c.admit(a, h)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p == nil || !a.records {
			claim.release()
		}
	}()
	rest, err := readRest(c.ctx, br, int(h.size)-headBytes, claim, weight, c.extend)
	if err != nil {
		return nil, err
	}
	c.s.metrics.bytesIn.Add(float64(h.size) + 4)
	decoded, err := c.decoding(h, len(rest), claim, weight)
	if err != nil {
		return nil, err
	}
	if p, err = c.start(a, h, rest, claim); err != nil || !large(h.size) || p.req.msg == nil {
		decoded.release()
	} else if decoded != nil {
		p.held = decoded
		if a.key == kmsg.Fetch {
			p.req.hurry = make(chan struct{})
			decoded.hurry = func() { close(p.req.hurry) }
		}
		decoded.send(weighs(a, p.req.msg, len(rest)), time.Now(), func() { c.cancel(errLongHeld) })
	}
	if p != nil {
		c.launch(p)
	}
	return p, err
}

// start decodes a request and runs its handler's first part. A panic there is this
// connection's end.
func (c *conn) start(a *api, h head, rest []byte, claim *claim) (p *pending, err error) {
	defer c.recovered(h, &err)
	r := &request{head: h, conn: c, principal: c.principal, from: c.host, subject: c.subject(), claim: claim, arrived: time.Now(), turn: make(chan struct{}), asked: h.version}
	p = &pending{req: r, claim: claim}
	if h.key == kmsg.ApiVersions.Int16() && !c.serves(a, h.version) {
		r.unknown, p.resp = true, apiVersionsTooNew()
		return p, nil
	}
	defer func() { // before anything more is read, and whatever comes of it
		r.took = time.Since(r.arrived)
		c.s.chargeTime(r)
	}()
	r.msg = kmsg.RequestForKey(h.key)
	r.msg.SetVersion(h.version)
	if r.clientID, err = decodeRest(rest, r.msg); err != nil {
		return nil, err
	}
	if a.malformed != nil {
		if err := a.malformed(r.msg); err != nil {
			return nil, fmt.Errorf("%s version %d: %w", kmsg.NameForKey(h.key), h.version, err)
		}
	}
	p.reply, err = c.s.begin(c.work, a, r)
	if err != nil {
		return nil, fmt.Errorf("%s version %d: %w", kmsg.NameForKey(h.key), h.version, err)
	}
	p.resp = p.reply.resp
	return p, nil
}

// launch runs the waiting part of a request beside the others.
func (c *conn) launch(p *pending) {
	wait := p.reply.wait
	if p.reply.wait = nil; wait == nil {
		p.req.msg = nil
		p.claim.release()
		return
	}
	p.done = make(chan struct{})
	c.wg.Go(func() {
		defer close(p.done)
		defer p.claim.release()
		defer c.recovered(p.req.head, &p.err)
		defer func() { p.req.msg = nil }() // its answer may have to wait for others
		p.resp, p.err = wait(c.work)
	})
}

// recovered turns a panic into the connection's end.
func (c *conn) recovered(h head, err *error) {
	if v := recover(); v != nil {
		c.s.metrics.panics.Inc()
		if passed, ok := c.s.panicked.allow(time.Now()); ok {
			c.log.Error("panic in a request", "api", kmsg.NameForKey(h.key), "version", h.version, "panic", v, "stack", string(debug.Stack()), "not_logged_before", passed)
		}
		*err = fmt.Errorf("%s version %d: panic: %v", kmsg.NameForKey(h.key), h.version, v)
	}
}
