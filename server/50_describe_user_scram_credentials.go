package server

// DescribeUserScramCredentials, key 50, version 0 (KIP-554).
//
// Which mechanisms of SCRAM users have credentials for, and of how many iterations; nothing
// else of a credential is ever told. No list, or an empty one, means all users that have any.
// A user without is RESOURCE_NOT_FOUND, and one that is named twice DUPLICATE_RESOURCE.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var describeUserScramCredentialsAPI = api{key: kmsg.DescribeUserSCRAMCredentials, min: 0, max: 0, wide: true, access: onCluster(acl.Describe), start: (*Server).describeUserScramCredentials}

func (s *Server) describeUserScramCredentials(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeUserSCRAMCredentialsRequest)
	resp := kmsg.NewPtrDescribeUserSCRAMCredentialsResponse()
	resp.Results = []kmsg.DescribeUserSCRAMCredentialsResponseResult{}
	if r.refused != nil {
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.DescribeUserSCRAMCredentials, r.refused), message(r.refused)
		for range req.Users { // of nobody by name, as in Kafka
			resp.Results = append(resp.Results, s.describedUser("", nil, r.refused))
		}
		return now(resp)
	}
	have := map[string][]*projections.ScramCredential{}
	times := map[string]int{}
	var users []string
	name := func(user string) {
		if times[user]++; times[user] == 1 {
			users = append(users, user)
		}
	}
	for _, c := range s.backend.View().ScramCredentials() {
		have[c.User] = append(have[c.User], c)
	}
	for _, u := range req.Users {
		name(u.Name)
	}
	if len(req.Users) == 0 {
		for _, c := range s.backend.View().ScramCredentials() {
			if name(c.User); times[c.User] > 1 {
				times[c.User] = 1
			}
		}
	}
	for _, user := range users {
		if !r.room(3*elementBytes + len(user)) {
			break
		}
		var err error
		switch {
		case times[user] > 1:
			err = fmt.Errorf("%w: Cannot describe SCRAM credentials for the same user twice in a single request: %s", kerr.DuplicateResource, user)
		case len(have[user]) == 0:
			err = fmt.Errorf("%w: Attempt to describe a user credential that does not exist: %s", kerr.ResourceNotFound, user)
		}
		resp.Results = append(resp.Results, s.describedUser(user, have[user], err))
	}
	return now(resp)
}

func (s *Server) describedUser(user string, have []*projections.ScramCredential, err error) kmsg.DescribeUserSCRAMCredentialsResponseResult {
	out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
	out.User, out.ErrorCode, out.ErrorMessage = user, s.failure(kmsg.DescribeUserSCRAMCredentials, err), message(err)
	out.CredentialInfos = []kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo{}
	if err != nil {
		return out
	}
	out.ErrorMessage = new(string) // as Kafka has it
	for _, c := range have {
		i := kmsg.NewDescribeUserSCRAMCredentialsResponseResultCredentialInfo()
		i.Mechanism, i.Iterations = int8(c.Mechanism), c.Iterations
		out.CredentialInfos = append(out.CredentialInfos, i)
	}
	return out
}
