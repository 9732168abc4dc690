package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Mechanism is one of SCRAM: a user may have a password for each.
type Mechanism = kadm.ScramMechanism

// SetsFor is the mechanism of passwords that are set here.
const SetsFor = kadm.ScramSha512

// Passwords are the mechanisms that the user has a credential for, with its iterations.
func (c *Cluster) Passwords(ctx context.Context, user string) (map[Mechanism]int32, error) {
	resp, err := c.admin().DescribeUserSCRAMs(ctx, user)
	if err != nil {
		return nil, failed(cause(ctx, err), "", "describe the credentials of user %s", user)
	}
	r := resp[user]
	if is(r.Err, kerr.ResourceNotFound) {
		return nil, nil
	}
	have := map[Mechanism]int32{}
	for _, i := range r.CredInfos {
		have[i.Mechanism] = i.Iterations
	}
	return have, failed(r.Err, r.ErrMessage, "describe the credentials of user %s", user)
}

// SetPassword sets the user's password for SCRAM-SHA-512.
func (c *Cluster) SetPassword(ctx context.Context, user, password string, iterations int32) error {
	resp, err := c.admin().AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: user, Mechanism: SetsFor, Iterations: iterations, Password: password}})
	message := ""
	if err == nil {
		err, message = resp[user].Err, resp[user].ErrMessage
	}
	return failed(cause(ctx, err), message, "set the password of user %s", user)
}

// RemovePassword takes away the one for a mechanism; it is no error that there is none. A request
// may name a user once, and so a mechanism.
func (c *Cluster) RemovePassword(ctx context.Context, user string, m Mechanism) error {
	resp, err := c.admin().AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: user, Mechanism: m}}, nil)
	message := ""
	if err == nil {
		if err, message = resp[user].Err, resp[user].ErrMessage; is(err, kerr.ResourceNotFound) {
			return nil
		}
	}
	return failed(cause(ctx, err), message, "remove the password of user %s for %v", user, m)
}

// userEntity is the user by its name alone.
func userEntity(user string) kadm.ClientQuotaEntity {
	return kadm.ClientQuotaEntity{{Type: "user", Name: &user}}
}

// Quotas are those of the user by its name alone, by Kafka's names.
func (c *Cluster) Quotas(ctx context.Context, user string) (map[string]float64, error) {
	resp, err := c.admin().DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: &user, MatchType: kmsg.QuotasMatchTypeExact}})
	if err != nil {
		return nil, failed(cause(ctx, err), "", "describe the quotas of user %s", user)
	}
	out := map[string]float64{}
	for _, q := range resp {
		for _, v := range q.Values {
			out[v.Key] = v.Value
		}
	}
	return out, nil
}

// AlterQuotas sets quotas of the user, and takes others away.
func (c *Cluster) AlterQuotas(ctx context.Context, user string, set map[string]float64, remove []string) error {
	e := kadm.AlterClientQuotaEntry{Entity: userEntity(user)}
	for k, v := range set {
		e.Ops = append(e.Ops, kadm.AlterClientQuotaOp{Key: k, Value: v})
	}
	for _, k := range remove {
		e.Ops = append(e.Ops, kadm.AlterClientQuotaOp{Key: k, Remove: true})
	}
	resp, err := c.admin().AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{e})
	message := ""
	switch {
	case err != nil:
	case len(resp) != 1:
		err = errors.New("the answer is about another user")
	default:
		err, message = resp[0].Err, resp[0].ErrMessage
	}
	return failed(cause(ctx, err), message, "alter the quotas of user %s", user)
}
