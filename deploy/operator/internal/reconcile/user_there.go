package reconcile

import (
	"context"
	"slices"
	"strings"

	"kaas.dev/kaas/deploy/operator/api/v1alpha1"
	"kaas.dev/kaas/deploy/operator/internal/kafka"
)

// notOurs refuses users that no resource may be for.
func (r *Users) notOurs(user string) error {
	switch {
	case user == r.Self():
		return no(ReasonOperatorsOwn, "%s is as whom the operator itself logs in", user)
	case slices.Contains(r.Reserved, user):
		return no(ReasonReserved, "%s is reserved: no resource may be for it", user)
	}
	return nil
}

// unlessThere refuses a user that somebody else has made, unless the resource is to adopt it: such
// as brokers log in with, or an administrator. The status says which one is ours, for who makes a
// resource cannot write that, and it is written before anything is done to the user.
func (r *Users) unlessThere(ctx context.Context, u *v1alpha1.KafkaUser) error {
	if u.Held() || u.Spec.Adopt {
		return nil
	}
	var found []string
	if have, err := r.Cluster.Passwords(ctx, u.KafkaName()); err != nil {
		return err
	} else if len(have) > 0 {
		found = append(found, "a password")
	}
	acls, err := r.Cluster.ACLs(ctx, u.Principal())
	if err != nil && kafka.KindOf(err) != kafka.NoAuthorizer {
		return err
	}
	if len(acls) > 0 {
		found = append(found, "ACLs")
	}
	quotas, err := r.Cluster.Quotas(ctx, u.KafkaName())
	if err != nil {
		return err
	}
	if len(quotas) > 0 {
		found = append(found, "quotas")
	}
	if len(found) == 0 {
		return nil
	}
	return no(ReasonUserExists, "%s is there already, with %s, and stays as it is: spec.adopt takes it over", u.KafkaName(), strings.Join(found, ", "))
}
