package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// headBytes is what every request starts with: key, version, correlation ID.
	headBytes = 8
	// growth is how many times what has come a request is given for the rest, up to mostGrowth more,
	// or as much again.
	growth     = 8
	mostGrowth = 2 << 20
	// controlMax bounds a request that carries no records.
	controlMax = 4 << 20
	// controlWeight is what a byte of such a request may cost in memory once it is decoded,
	// at worst (arrays of the smallest elements).
	controlWeight = 48
)

// head is the fixed part of a request, known before the rest is read.
type head struct {
	size          int32 // of the whole request, without the size itself
	key, version  int16
	correlationID int32
}

var (
	errSize   = errors.New("request size out of bounds")
	errHeader = errors.New("request header cut short")
)

// readHead reads the size and the fixed part. The size is checked against max
// before anything is done with it.
func readHead(r io.Reader, max int64) (head, error) {
	var b [4 + headBytes]byte
	if _, err := io.ReadFull(r, b[:4]); err != nil {
		return head{}, err
	}
	h := head{size: int32(binary.BigEndian.Uint32(b[:]))}
	if h.size < headBytes || int64(h.size) > max {
		if b[0] == 0x16 && b[1] == 3 { // a handshake's record, of any version
			return head{}, fmt.Errorf("%w: it begins as TLS does, which is not spoken here", errSize)
		}
		return head{}, fmt.Errorf("%w: %d", errSize, h.size)
	}
	if _, err := io.ReadFull(r, b[4:]); err != nil {
		return head{}, err
	}
	h.key = int16(binary.BigEndian.Uint16(b[4:]))
	h.version = int16(binary.BigEndian.Uint16(b[6:]))
	h.correlationID = int32(binary.BigEndian.Uint32(b[8:]))
	return h, nil
}

// readRest reads n bytes, taking memory for them. What fits the reader's buffer is awaited
// there, and holds nothing before it is whole: then each byte takes weight. Of more, what has
// arrived is paid for first, and then pieces that grow with it, up to as much again, at no more
// than two a byte; what decoding takes is up to the caller. progress is called after each MiB,
// and after a wait for memory, so that it gives the peer time for the next.
func readRest(ctx context.Context, r *bufio.Reader, n int, c *claim, weight int64, progress func()) ([]byte, error) {
	buf := []byte{}
	for passed := 0; len(buf) < n; {
		arrived := min(n-len(buf), r.Size())
		if _, err := r.Peek(arrived); err != nil {
			return nil, err
		}
		to, each := len(buf)+arrived, weight
		if arrived < n {
			to = min(n, max(to, len(buf)+min(len(buf)*(growth-1), max(len(buf), mostGrowth))))
			each = min(weight, saslWeight)
		}
		if err := c.take(ctx, int64(to-len(buf))*each, arrived == n); err != nil {
			return nil, err
		}
		if c.waited {
			c.waited = false
			progress()
		}
		next := slices.Grow(buf, to-len(buf))[:to]
		for have := len(buf); have < to; {
			m, err := r.Read(next[have:min(have+writePiece-passed, to)])
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return nil, err
			}
			c.came.Add(int64(m))
			have += m
			if passed += m; passed == writePiece {
				passed = 0
				progress()
			}
		}
		buf = next
	}
	if c.n < int64(n)*weight {
		c.received()
	} else {
		c.complete()
	}
	return buf, nil
}

// decodeRest splits the rest of a request into client ID and body, and decodes the
// body. msg has its version set. kmsg holds an array's length against the bytes that
// are left, at a few bytes an element; controlWeight and walkProduce are for the rest.
func decodeRest(rest []byte, msg kmsg.Request) (clientID string, err error) {
	clientID, body, err := splitHeader(rest, msg.IsFlexible())
	if err != nil {
		return "", err
	}
	if msg.Key() == kmsg.Produce.Int16() {
		if err := walkProduce(body, msg.GetVersion()); err != nil {
			return "", err
		}
	}
	if err := msg.ReadFrom(body); err != nil {
		return "", fmt.Errorf("%s version %d: %w", kmsg.NameForKey(msg.Key()), msg.GetVersion(), err)
	}
	if k := msg.Key(); k != kmsg.Produce.Int16() && k != kmsg.Fetch.Int16() { // they make nothing that has a name
		mendText(reflect.ValueOf(msg))
	}
	return textOf(clientID), nil
}

func splitHeader(b []byte, flexible bool) (clientID string, body []byte, err error) {
	if len(b) < 2 {
		return "", nil, errHeader
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n > len(b) {
		return "", nil, errHeader
	}
	if n > 0 {
		clientID, b = string(b[:n]), b[n:]
	}
	if flexible {
		b, err = skipTags(b)
	}
	return clientID, b, err
}

// skipTags passes over a header's tag section. None of its tags means anything here.
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errHeader
	}
	for b = b[n:]; count > 0; count-- {
		_, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errHeader
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return nil, errHeader
		}
		b = b[n+m+int(size):]
	}
	return b, nil
}

// appendResponse appends a whole response. ApiVersions has no tag section in its
// header, so that a client of any age can read it.
func appendResponse(dst []byte, correlationID int32, resp kmsg.Response) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 0), uint32(correlationID))
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		dst = append(dst, 0)
	}
	dst = resp.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
