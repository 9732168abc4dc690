package server

// DescribeDelegationToken, key 41, versions 1 to 3 (KIP-48, KIP-373). See tokensRefused.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var describeDelegationTokenAPI = api{key: kmsg.DescribeDelegationToken, min: 1, max: 3, access: open("there are no tokens, and nobody is shown those that he may not describe"), start: (*Server).describeDelegationToken}

func (s *Server) describeDelegationToken(_ context.Context, r *request) (reply, error) {
	resp := kmsg.NewPtrDescribeDelegationTokenResponse()
	resp.ErrorCode = s.failure(kmsg.DescribeDelegationToken, r.tokensRefused())
	return now(resp)
}
