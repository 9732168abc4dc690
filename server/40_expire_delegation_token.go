package server

// ExpireDelegationToken, key 40, versions 1 and 2 (KIP-48). See tokensRefused.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var expireDelegationTokenAPI = api{key: kmsg.ExpireDelegationToken, min: 1, max: 2, access: open("there are no tokens, and whoever has one may expire it"), start: (*Server).expireDelegationToken}

func (s *Server) expireDelegationToken(_ context.Context, r *request) (reply, error) {
	resp := kmsg.NewPtrExpireDelegationTokenResponse()
	resp.ErrorCode = s.failure(kmsg.ExpireDelegationToken, r.tokensRefused())
	resp.ExpiryTimestamp = -1
	return now(resp)
}
