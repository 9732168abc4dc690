package server

// CreateDelegationToken, key 38, versions 1 to 3 (KIP-48, KIP-373).
//
// There are no delegation tokens: see tokensRefused. The answer names who asked, and for
// whom.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth"
)

var createDelegationTokenAPI = api{key: kmsg.CreateDelegationToken, min: 1, max: 3, access: checks(right{acl.CreateTokens, acl.User}), start: (*Server).createDelegationToken}

func (s *Server) createDelegationToken(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.CreateDelegationTokenRequest)
	resp := kmsg.NewPtrCreateDelegationTokenResponse()
	owner := r.principal
	if or(req.OwnerPrincipalName, "") != "" {
		owner = auth.Principal{Type: or(req.OwnerPrincipalType, ""), Name: *req.OwnerPrincipalName}
	}
	err := r.tokensRefused()
	if errors.Is(err, kerr.DelegationTokenAuthDisabled) && owner != r.principal && !r.may(acl.CreateTokens, acl.User, owner.String()) {
		err = kerr.DelegationTokenAuthorizationFailed
	}
	resp.ErrorCode = s.failure(kmsg.CreateDelegationToken, err)
	resp.TokenRequesterPrincipalType, resp.TokenRequesterPrincipalName = r.principal.Type, r.principal.Name
	resp.PrincipalType, resp.PrincipalName = owner.Type, owner.Name
	resp.IssueTimestamp, resp.ExpiryTimestamp, resp.MaxTimestamp = -1, -1, -1
	return now(resp)
}

// tokensRefused is why nothing can be done with delegation tokens. As in Kafka, who asks
// without having shown who he is learns no more than that
// (DELEGATION_TOKEN_REQUEST_NOT_ALLOWED); others are told that there are none
// (DELEGATION_TOKEN_AUTH_DISABLED).
func (r *request) tokensRefused() error {
	if l := r.conn.listener; l.Protocol == plaintext || l.Protocol == overTLS && r.principal == auth.Anonymous {
		return kerr.DelegationTokenRequestNotAllowed
	}
	return kerr.DelegationTokenAuthDisabled
}
