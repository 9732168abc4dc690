package server

// AlterUserScramCredentials, key 51, version 0 (KIP-554).
//
// Sets and removes users' credentials for SCRAM, through the controller. The client sends a
// salted password, of which only what proves it is kept. Each user is answered for itself, and
// may stand in a request once (DUPLICATE_RESOURCE); the changes of a request are made together.
// No name, iterations out of 4096 to 16384, a salt out of 1 to 1024 bytes, and a salted password
// that is not as long as the mechanism's hash are UNACCEPTABLE_CREDENTIAL, an unknown mechanism is
// UNSUPPORTED_SASL_MECHANISM, and removing what is not there RESOURCE_NOT_FOUND.
// There is an end to how many credentials there may be (POLICY_VIOLATION) and to how many
// changes a request may make (INVALID_REQUEST).

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
	"kaas.dev/kaas/server/auth/sasl"
)

var alterUserScramCredentialsAPI = api{key: kmsg.AlterUserSCRAMCredentials, min: 0, max: 0, forward: true, access: onCluster(acl.Alter), start: (*Server).alterUserScramCredentials}

func (s *Server) alterUserScramCredentials(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AlterUserSCRAMCredentialsRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, alterTimeout)
		defer cancel()
		cs := newScramChanges(req, time.Now())
		err := orElse(r.refused, func() error { return cs.refused })
		if err == nil {
			err = s.backend.AlterUsers(ctx, cs.decide)
		}
		resp := kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
		resp.Results = []kmsg.AlterUserSCRAMCredentialsResponseResult{}
		for _, user := range cs.users {
			why := err
			if err == nil { // else decide may still run
				why = cs.errs[user]
			}
			out := kmsg.NewAlterUserSCRAMCredentialsResponseResult()
			out.User, out.ErrorCode, out.ErrorMessage = user, s.failure(kmsg.AlterUserSCRAMCredentials, why), r.message(why)
			resp.Results = append(resp.Results, out)
		}
		return resp
	})
}

// scramChanges is what a request asks for.
type scramChanges struct {
	asked []scramChange
	users []string // each once, in the order in which they stand
	seen  map[string]bool
	// refused is what is wrong with all of it.
	refused error
	// What is to become of users is settled when decide first runs: nil before.
	facts map[string]projections.Fact
	errs  map[string]error
}

// scramChange is one change of a request, and what is wrong with it whatever there is.
type scramChange struct {
	user string
	fact projections.Fact
	err  error
}

func newScramChanges(req *kmsg.AlterUserSCRAMCredentialsRequest, at time.Time) *scramChanges {
	cs := &scramChanges{seen: map[string]bool{}, refused: notTooMany(len(req.Deletions) + len(req.Upsertions))}
	for i := range req.Deletions {
		d := &req.Deletions[i]
		m := projections.ScramMechanism(d.Mechanism)
		cs.ask(d.Name, &projections.ScramCredentialRemoved{User: d.Name, Mechanism: m}, checkScramUser(d.Name, m))
	}
	for i := range req.Upsertions {
		u := &req.Upsertions[i]
		m := projections.ScramMechanism(u.Mechanism)
		err := orElse(cs.refused, func() error { return checkScramUser(u.Name, m) })
		switch {
		case err != nil:
		case u.Iterations < projections.MinScramIterations:
			err = fmt.Errorf("%w: Too few iterations", kerr.UnacceptableCredential)
		case u.Iterations > projections.MaxScramIterations:
			err = fmt.Errorf("%w: Too many iterations", kerr.UnacceptableCredential)
		case len(u.Salt) < 1 || len(u.Salt) > projections.MaxScramSalt:
			err = fmt.Errorf("%w: The salt must have 1 to %d bytes", kerr.UnacceptableCredential, projections.MaxScramSalt)
		case len(u.SaltedPassword) != sasl.HashBytes(m):
			err = fmt.Errorf("%w: The salted password must have %d bytes", kerr.UnacceptableCredential, sasl.HashBytes(m))
		}
		if err != nil {
			cs.ask(u.Name, nil, err)
			continue
		}
		f := sasl.FromSaltedPassword(u.Name, m, bytes.Clone(u.Salt), u.SaltedPassword, u.Iterations)
		f.SetAt = at.UnixMilli()
		cs.ask(u.Name, f, nil)
	}
	return cs
}

func checkScramUser(name string, m projections.ScramMechanism) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: Username must not be empty", kerr.UnacceptableCredential)
	case !m.Valid():
		return fmt.Errorf("%w: Unknown SCRAM mechanism", kerr.UnsupportedSaslMechanism)
	}
	return nil
}

func (cs *scramChanges) ask(user string, f projections.Fact, err error) {
	cs.asked = append(cs.asked, scramChange{user, f, err})
	if !cs.seen[user] {
		cs.seen[user] = true
		cs.users = append(cs.users, user)
	}
}

// settle finds out which changes can be made. The first that is wrong with a user is told.
func (cs *scramChanges) settle(view *projections.Cluster) {
	cs.facts, cs.errs = map[string]projections.Fact{}, map[string]error{}
	for _, c := range cs.asked {
		d, removes := c.fact.(*projections.ScramCredentialRemoved)
		switch {
		case cs.errs[c.user] != nil:
		case cs.facts[c.user] != nil:
			delete(cs.facts, c.user)
			cs.errs[c.user] = fmt.Errorf("%w: A user credential cannot be altered twice in the same request", kerr.DuplicateResource)
		case c.err != nil:
			cs.errs[c.user] = c.err
		case removes && view.ScramCredential(d.User, d.Mechanism) == nil:
			cs.errs[c.user] = fmt.Errorf("%w: Attempt to delete a user credential that does not exist", kerr.ResourceNotFound)
		default:
			cs.facts[c.user] = c.fact
		}
	}
}

// decide gives the changes that are to be made, and are not yet. What it has found at first
// holds when it runs again: what it has removed is not missing then.
func (cs *scramChanges) decide(view *projections.Cluster) (out []projections.Fact, err error) {
	if cs.facts == nil {
		cs.settle(view)
	}
	for _, user := range cs.users {
		if f := cs.facts[user]; f != nil && !made(view, f) {
			out = append(out, f)
		}
	}
	return out, nil
}

// made reports that a change shows in the view.
func made(view *projections.Cluster, f projections.Fact) bool {
	switch e := f.(type) {
	case *projections.ScramCredentialRemoved:
		return view.ScramCredential(e.User, e.Mechanism) == nil
	case *projections.ScramCredentialSet:
		c := view.ScramCredential(e.User, e.Mechanism)
		return c != nil && bytes.Equal(c.StoredKey, e.StoredKey) && c.SetAt.UnixMilli() == e.SetAt
	}
	return false
}
