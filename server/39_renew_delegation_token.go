package server

// RenewDelegationToken, key 39, versions 1 and 2 (KIP-48). See tokensRefused.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var renewDelegationTokenAPI = api{key: kmsg.RenewDelegationToken, min: 1, max: 2, access: open("there are no tokens, and whoever has one may renew it"), start: (*Server).renewDelegationToken}

func (s *Server) renewDelegationToken(_ context.Context, r *request) (reply, error) {
	resp := kmsg.NewPtrRenewDelegationTokenResponse()
	resp.ErrorCode = s.failure(kmsg.RenewDelegationToken, r.tokensRefused())
	resp.ExpiryTimestamp = -1
	return now(resp)
}
