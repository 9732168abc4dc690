package server

import (
	"sync"
	"time"
)

func (c *conn) runWriter() {
	err := c.write()
	if err == nil { // the queue is closed
		err = c.ended
	}
	c.cancel(err)
	c.finish()
}

// write answers in order until the reader has stopped and all is written.
func (c *conn) write() error {
	for p := range c.queue {
		c.writing = p
		close(p.req.turn)
		if p.done != nil {
			select {
			case <-p.done:
			case <-c.ctx.Done():
				return c.ctx.Err()
			}
		}
		if p.err != nil {
			return p.err
		}
		if err := c.answer(p); err != nil {
			return err
		}
		c.answered.Store(true)
		if c.open.Add(-1) == 0 {
			select {
			case c.idle <- struct{}{}:
			default: // it was told so before
			}
		}
		p.held.release()
		if !apiFor(p.req.key).records && !large(p.req.size) {
			c.undone.Release(int64(p.req.size))
		}
	}
	return nil
}

// finish gives what was read its turn though nobody is there for the answer: a member that
// leaves its group and hangs up has left, as with Kafka. What waits for others has been told
// of the end by its context.
func (c *conn) finish() {
	if c.writing != nil {
		c.writing.forget()
	}
	for p := range c.queue {
		close(p.req.turn)
		p.forget()
	}
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

func (c *conn) answer(p *pending) (err error) {
	defer c.recovered(p.req.head, &err)
	c.s.metrics.answered(p.req)
	p.req.auditRest()
	if p.raw != nil {
		return c.send(p.raw)
	}
	c.s.tellThrottle(p.req, p.resp)
	if p.resp == nil {
		return nil
	}
	if !p.req.unknown {
		p.resp.SetVersion(p.req.version)
	}
	if f, ok := p.resp.(*fetchAnswer); ok {
		p.made()
		return c.answerFetch(p.req.correlationID, f)
	}
	buf := buffers.Get().(*[]byte)
	*buf = appendResponse((*buf)[:0], p.req.correlationID, p.resp)
	p.made()
	defer p.drop()
	if err := p.req.tells(len(*buf)); err != nil {
		return err
	}
	p.held.release()
	p.req.telling.made(cap(*buf))
	c.s.metrics.bytesOut.Add(float64(len(*buf)))
	err = c.send(*buf)
	if cap(*buf) <= keepBuffer {
		buffers.Put(buf)
	}
	return err
}

// send writes in pieces, each with its own deadline, so that a slow peer is told
// from a dead one.
func (c *conn) send(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), writePiece)
		if err := c.nc.SetWriteDeadline(time.Now().Add(pieceTimeout)); err != nil {
			return err
		}
		if _, err := c.nc.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
