package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
)

// loginAnswer bounds what is read of a broker's answer while logging in.
const loginAnswer = 64 << 10

// login authenticates a connection to another broker that is not franz-go's client's.
func login(ctx context.Context, nc net.Conn, m sasl.Mechanism) error {
	if err := nc.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Version, hello.Mechanism = 1, m.Name()
	if err := converse(nc, hello); err != nil {
		return fmt.Errorf("%s: %w", m.Name(), err)
	}
	session, token, err := m.Authenticate(ctx, nc.RemoteAddr().String())
	for done := false; !done && err == nil; {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = token
		if err = converse(nc, req); err == nil {
			done, token, err = session.Challenge(req.SASLAuthBytes)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.Name(), err)
	}
	return nc.SetDeadline(time.Time{})
}

// converse sends a request and reads its answer, into the request's place for the token.
func converse(nc net.Conn, req kmsg.Request) error {
	if _, err := nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("kaas")).AppendRequest(nil, req, 0)); err != nil {
		return err
	}
	var head [8]byte // size and correlation ID
	if _, err := io.ReadFull(nc, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 4 || n > loginAnswer {
		return fmt.Errorf("an answer of %d bytes", n)
	}
	body := make([]byte, n-4)
	if _, err := io.ReadFull(nc, body); err != nil {
		return err
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		return err
	}
	switch r := resp.(type) {
	case *kmsg.SASLHandshakeResponse:
		return kerr.ErrorForCode(r.ErrorCode)
	case *kmsg.SASLAuthenticateResponse:
		req.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes = r.SASLAuthBytes
		return kerr.ErrorForCode(r.ErrorCode)
	}
	return nil
}
