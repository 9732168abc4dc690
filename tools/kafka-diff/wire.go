package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	clientID   = "kdiff"
	answerTime = 30 * time.Second // what no answer takes longer than
	mostAnswer = 64 << 20
)

// conn is a connection to a broker, opened when it is first used and again when the broker
// has closed it.
type conn struct {
	side *side
	nc   net.Conn
	corr int32
	sent []kmsg.Request // not answered yet, in order
}

func (c *conn) close() {
	if c.nc != nil {
		c.nc.Close()
	}
	c.nc, c.sent = nil, nil
}

// write sends bytes as they are.
func (c *conn) write(b []byte) error {
	if c.nc == nil {
		nc, err := net.Dial("tcp", c.side.addr)
		if err != nil {
			return err
		}
		c.nc = nc
	}
	_ = c.nc.SetDeadline(time.Now().Add(answerTime))
	_, err := c.nc.Write(b)
	return err
}

func (c *conn) frame(req kmsg.Request) []byte {
	c.corr++
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, c.corr)
}

// start sends a request whose answer [conn.take] reads.
func (c *conn) start(req kmsg.Request) error {
	if err := c.write(c.frame(req)); err != nil {
		return err
	}
	c.sent = append(c.sent, req)
	return nil
}

// errClosed is that the broker has closed the connection.
var errClosed = errors.New("the connection is closed")

// take reads the answer of the oldest request without one.
func (c *conn) take() (kmsg.Response, error) {
	req := c.sent[0]
	c.sent = c.sent[1:]
	b, err := c.read()
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	return resp, decode(resp, b)
}

// read reads one frame, without its length.
func (c *conn) read() ([]byte, error) {
	_ = c.nc.SetDeadline(time.Now().Add(answerTime))
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
			return nil, fmt.Errorf("no answer in %v", answerTime)
		}
		return nil, errClosed
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > mostAnswer {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(c.nc, b); err != nil {
		return nil, err
	}
	return b, nil
}

// decode reads an answer, its correlation ID first, and wants all of it to be understood.
func decode(resp kmsg.Response, b []byte) error {
	b = b[4:]
	if resp.Key() == kmsg.ApiVersions.Int16() && len(b) >= 2 && int16(binary.BigEndian.Uint16(b)) == unsupportedVersion {
		resp.SetVersion(0) // in which a version that is not known is answered
	}
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		if len(b) == 0 || b[0] != 0 {
			return errors.New("no empty tags in the header of the answer")
		}
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		return fmt.Errorf("%w: %d bytes: %x", err, len(b), b[:min(len(b), 200)])
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		return fmt.Errorf("%d bytes were sent, and %d are understood: %x and %x", len(b), len(again), b[:min(len(b), 200)], again[:min(len(again), 200)])
	}
	return nil
}

const unsupportedVersion = 35
