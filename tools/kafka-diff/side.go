package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// side is one of the two brokers, with what it was asked and has answered.
type side struct {
	ctx     context.Context
	name    string
	log     io.Writer // what took long; may be nil
	addr    string
	cluster string // its ID
	symbols *symbols
	common  map[int16]versions // what both brokers serve
	main    *conn
	conns   []*conn

	script string
	steps  []step
}

// step is one request of a script and its answer.
type step struct {
	script, label string
	key, version  int16 // key -1 is no request of the protocol
	answer        *node
}

func (s *step) api() string {
	if s.key < 0 {
		return "connection"
	}
	return fmt.Sprintf("%s v%d", kmsg.NameForKey(s.key), s.version)
}

// versions is a range of versions.
type versions struct{ min, max int16 }

// slow is how long an answer takes that is told of.
const slow = time.Second

// dial is a further connection, which lives as long as the script.
func (s *side) dial() *conn {
	c := &conn{side: s}
	s.conns = append(s.conns, c)
	return c
}

// run runs a script. What panics there is told as a difference, for it is an answer that the
// script did not expect.
func (s *side) run(sc script) {
	s.script, s.main = sc.name, nil
	s.main = s.dial()
	defer func() {
		if v := recover(); v != nil {
			s.record("the script ends", -1, 0, leaf("panic of %s: %v", s.name, v))
		}
		for _, c := range s.conns {
			c.close()
		}
		s.conns = nil
	}()
	sc.run(s)
}

func (s *side) record(label string, key, version int16, answer *node) {
	s.steps = append(s.steps, step{s.script, label, key, version, answer})
}

// ask sends a request on the script's own connection and takes down the answer. Where there
// is none it returns an empty one.
func (s *side) ask(label string, req kmsg.Request) kmsg.Response { return s.main.ask(label, req) }

func (c *conn) ask(label string, req kmsg.Request) kmsg.Response {
	if err := c.side.ctx.Err(); err != nil {
		panic(err) // the run is given up
	}
	if err := c.start(req); err != nil {
		c.note(label, req, leaf("not sent: %v", err))
		c.close()
		return empty(req)
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		return c.unanswered(label, p)
	}
	return c.answer(label)
}

// unanswered is for a request that gets no answer: whether the connection stays open is seen
// from the next one's.
func (c *conn) unanswered(label string, req *kmsg.ProduceRequest) kmsg.Response {
	c.sent = nil
	err := c.start(kmsg.NewPtrApiVersionsRequest())
	if err == nil {
		_, err = c.take()
	}
	if err != nil {
		c.note(label, req, outcome(err))
		c.close()
	} else {
		c.note(label, req, leaf("no answer"))
	}
	return empty(req)
}

// send sends a request whose answer [conn.answer] takes.
func (c *conn) send(req kmsg.Request) {
	if err := c.start(req); err != nil {
		c.note("send", req, leaf("not sent: %v", err))
		c.sent = append(c.sent, req)
	}
}

// answer takes down the answer to the oldest request that has none.
func (c *conn) answer(label string) kmsg.Response {
	req, began := c.sent[0], time.Now()
	resp, err := c.take()
	if took := time.Since(began); took > slow && c.side.log != nil {
		fmt.Fprintf(c.side.log, "%s took %v for %s: %s: %s v%d\n", c.side.name, took.Round(time.Millisecond), c.side.script, label, kmsg.NameForKey(req.Key()), req.GetVersion())
	}
	if err != nil {
		c.note(label, req, outcome(err))
		c.close()
		return empty(req)
	}
	c.note(label, req, c.side.symbols.tree(resp))
	return resp
}

func outcome(err error) *node {
	if errors.Is(err, errClosed) {
		return leaf("closed")
	}
	return leaf("error: %v", err)
}

func (c *conn) note(label string, req kmsg.Request, n *node) {
	c.side.record(label, req.Key(), req.GetVersion(), n)
}

func empty(req kmsg.Request) kmsg.Response {
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp
}

// quiet asks without taking anything down; nil is no answer. What is to be learnt of topics'
// names is learnt.
func (s *side) quiet(req kmsg.Request) kmsg.Response {
	c := &conn{side: s}
	defer c.close()
	if c.start(req) != nil {
		return nil
	}
	resp, err := c.take()
	if err != nil {
		return nil
	}
	s.symbols.learn(reflect.ValueOf(resp))
	return resp
}

// until asks until the answer is as it should be. That it never comes to be so is taken down.
func (s *side) until(what string, done func() bool) {
	deadline, tick := time.NewTimer(answerTime), time.NewTicker(20*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			s.record(what, -1, 0, leaf("waited in vain"))
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// each asks one thing in every version that both serve.
func each[R kmsg.Request](s *side, label string, fill func(R)) {
	from[R](s, 0, label, fill)
}

// from is each of versions from one on.
func from[R kmsg.Request](s *side, first int16, label string, fill func(R)) {
	var r R
	for _, v := range s.served(r.Key()) {
		if v >= first {
			s.ask(label, request(v, fill))
		}
	}
}

// request is a request of a version.
func request[R kmsg.Request](version int16, fill func(R)) R {
	var r R
	r = kmsg.RequestForKey(r.Key()).(R)
	r.SetVersion(version)
	fill(r)
	return r
}

// newest is a request of the newest version that both serve.
func newest[R kmsg.Request](s *side, fill func(R)) R {
	var r R
	return request(s.common[r.Key()].max, fill)
}

// served are the versions of a key that both serve, lowest first.
func (s *side) served(key int16) (out []int16) {
	r, ok := s.common[key]
	if !ok {
		return nil
	}
	for v := r.min; v <= r.max; v++ {
		out = append(out, v)
	}
	return out
}
