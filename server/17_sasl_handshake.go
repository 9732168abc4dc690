package server

// SaslHandshake, key 17, versions 0 and 1 (KIP-43, KIP-152).
//
// Begins to authenticate with a mechanism, on a listener that has SASL. What follows is
// SaslAuthenticate or, after version 0, the mechanism's own messages, each with its size
// before it (sasl_raw.go). A mechanism that is not enabled is UNSUPPORTED_SASL_MECHANISM, with
// those that are, and the connection's end. A handshake that may not come is
// ILLEGAL_SASL_STATE: on a listener without SASL, and for a client that is authenticated, but
// where that expires (connections.max.reauth.ms, KIP-368).

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var saslHandshakeAPI = api{key: kmsg.SASLHandshake, min: 0, max: 1, access: open("who asks is known after it"), start: (*Server).saslHandshake}

func (s *Server) saslHandshake(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.SASLHandshakeRequest)
	resp := kmsg.NewPtrSASLHandshakeResponse()
	a, now := r.conn.auth, time.Now()
	may := a.mayBegin(now)
	r.exempt = may || a != nil && a.stage != stageDone
	if !may {
		resp.ErrorCode = s.failure(kmsg.SASLHandshake, kerr.IllegalSaslState)
		if a != nil && a.stage != stageDone {
			return a.fail(resp, fmt.Errorf("%w: a handshake within an exchange", kerr.IllegalSaslState))
		}
		return reply{resp: resp}, nil
	}
	resp.SupportedMechanisms = a.names
	if !slices.Contains(a.names, req.Mechanism) {
		resp.ErrorCode = s.failure(kmsg.SASLHandshake, kerr.UnsupportedSaslMechanism)
		return a.fail(resp, fmt.Errorf("%w: %.100q", kerr.UnsupportedSaslMechanism, req.Mechanism))
	}
	a.start(req.Mechanism, req.Version == 0, r.conn.principal, now)
	return reply{resp: resp}, nil
}

// fail answers a client that has failed, a while later, and ends its connection.
func (a *authentication) fail(resp kmsg.Response, err error) (reply, error) {
	wait := func(ctx context.Context) (kmsg.Response, error) {
		t := time.NewTimer(a.delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		return resp, nil
	}
	return reply{wait: wait, last: fmt.Errorf("%w: %w", errLogin, err)}, nil
}
