package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/auth"
)

// authenticated makes the client somebody, for the requests that come after this one.
func (c *conn) authenticated(who auth.Principal) {
	c.principal = who
	c.s.metrics.logins.WithLabelValues(c.listener.Name, c.auth.mechanism).Inc()
	c.log.Debug("authenticated", "principal", who.String(), "mechanism", c.auth.mechanism, "again", c.auth.again)
}

// nextToken reads and answers a message of a mechanism that comes without a request around
// it. Who fails gets no answer.
func (c *conn) nextToken(br *bufio.Reader) (*pending, error) {
	var b [4]byte
	if _, err := io.ReadFull(br, b[:]); err != nil {
		return nil, err
	}
	h := head{size: int32(binary.BigEndian.Uint32(b[:])), key: kmsg.SASLAuthenticate.Int16()}
	if h.size < 0 || int64(h.size) > c.auth.maxReceive {
		return nil, fmt.Errorf("%w: %d", errSize, h.size)
	}
	if err := c.awaitUndone(h.size); err != nil {
		return nil, err
	}
	claim := c.incoming(h.size).begin()
	claim.cut, claim.size = c.tooSlow, int64(h.size)
	defer claim.release()
	token, err := readRest(c.ctx, br, int(h.size), claim, 1, c.extend)
	if err != nil {
		return nil, err
	}
	r := &request{head: h, conn: c, principal: c.principal, claim: claim, arrived: time.Now(), turn: make(chan struct{}), unknown: true}
	p := &pending{req: r, claim: claim}
	answer, who, _, err := c.auth.step(token, time.Now())
	if err != nil {
		c.s.metrics.refused.WithLabelValues(c.listener.Name, c.auth.mechanism).Inc()
		p.reply, _ = c.auth.fail(nil, err)
		c.launch(p)
		return p, nil
	}
	if who != nil {
		c.authenticated(*who)
	}
	p.raw = binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(answer)), uint32(len(answer)))
	p.raw = append(p.raw, answer...)
	return p, nil
}
