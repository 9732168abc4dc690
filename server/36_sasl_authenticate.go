package server

// SaslAuthenticate, key 36, versions 0 to 2 (KIP-152, KIP-368).
//
// A message of the mechanism that SaslHandshake has begun with, and the answer to it. Who
// fails, whatever the reason, is told SASL_AUTHENTICATION_FAILED after
// connection.failed.authentication.delay.ms, and the connection ends. From version 1 who
// succeeds is told for how long. Out of order it is ILLEGAL_SASL_STATE.

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var saslAuthenticateAPI = api{key: kmsg.SASLAuthenticate, min: 0, max: 2, access: open("who asks is known after it"), start: (*Server).saslAuthenticate}

func (s *Server) saslAuthenticate(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.SASLAuthenticateRequest)
	resp := kmsg.NewPtrSASLAuthenticateResponse()
	resp.SASLAuthBytes = []byte{}
	a := r.conn.auth
	if a == nil || a.stage != stageTokens {
		text := "SaslAuthenticate request received after successful authentication"
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.SASLAuthenticate, kerr.IllegalSaslState), &text
		return reply{resp: resp}, nil
	}
	r.exempt = true
	answer, who, life, err := a.step(req.SASLAuthBytes, time.Now())
	if err != nil {
		text := a.told(err)
		s.metrics.refused.WithLabelValues(r.conn.listener.Name, a.mechanism).Inc()
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.SASLAuthenticate, kerr.SaslAuthenticationFailed), &text
		return a.fail(resp, err)
	}
	if who != nil {
		r.conn.authenticated(*who)
		resp.SessionLifetimeMillis = life.Milliseconds()
	}
	if answer != nil {
		resp.SASLAuthBytes = answer
	}
	return reply{resp: resp}, nil
}
