package server

// AlterClientQuotas, key 49, versions 0 and 1 (KIP-546).
//
// Each entity has its own answer, and either all of its quotas change or none. An entity of
// which a quota stands twice is INVALID_REQUEST; one that stands twice itself is as well, and
// has what its first entry says. There is an end to how many entities may have quotas
// (POLICY_VIOLATION) and to how many entries a request may have (INVALID_REQUEST).

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var alterClientQuotasAPI = api{key: kmsg.AlterClientQuotas, min: 0, max: 1, forward: true, access: onCluster(acl.AlterConfigs), start: (*Server).alterClientQuotas}

// quotaAlteration is what a request asks of an entity, and what is wrong with it.
type quotaAlteration struct {
	in     *kmsg.AlterClientQuotasRequestEntry
	change projections.QuotasChanged
	err    error
}

func (s *Server) alterClientQuotas(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AlterClientQuotasRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		as := quotaAlterations(req)
		if failed := s.alterQuotas(ctx, r, as, req.ValidateOnly); failed != nil {
			for _, a := range as {
				a.err = failed
			}
		}
		resp := kmsg.NewPtrAlterClientQuotasResponse()
		for _, a := range as {
			out := kmsg.NewAlterClientQuotasResponseEntry()
			out.ErrorCode, out.ErrorMessage = s.failure(kmsg.AlterClientQuotas, a.err), r.message(a.err)
			for _, p := range a.in.Entity {
				o := kmsg.NewAlterClientQuotasResponseEntryEntity()
				o.Type, o.Name = p.Type, p.Name
				out.Entity = append(out.Entity, o)
			}
			resp.Entries = append(resp.Entries, out)
		}
		return resp
	})
}

// alterQuotas makes the changes that nothing is wrong with. What fails then fails for all.
func (s *Server) alterQuotas(ctx context.Context, r *request, as []*quotaAlteration, validateOnly bool) error {
	if err := orElse(r.refused, func() error { return notTooMany(len(r.msg.(*kmsg.AlterClientQuotasRequest).Entries)) }); err != nil {
		return err
	}
	var changes []projections.QuotasChanged
	for _, a := range as {
		if a.change.Entity != (projections.QuotaEntity{}) {
			changes = append(changes, a.change)
		}
	}
	if validateOnly || len(changes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, alterTimeout)
	defer cancel()
	return s.backend.AlterQuotas(ctx, changes)
}

// mostAltered bounds the entries of a request that alters quotas or credentials, as Kafka
// does the records that one makes.
const mostAltered = 10_000

func notTooMany(entries int) error {
	if entries > mostAltered {
		return fmt.Errorf("%w: %d changes at once, more than %d", kerr.InvalidRequest, entries, mostAltered)
	}
	return nil
}

// quotaAlterations are those of a request, each entity once. One that failed has no change,
// but for the first of those that stand twice.
func quotaAlterations(req *kmsg.AlterClientQuotasRequest) (out []*quotaAlteration) {
	at := map[string]*quotaAlteration{}
	for i := range req.Entries {
		a := &quotaAlteration{in: &req.Entries[i]}
		key := entityKey(a.in.Entity)
		if first := at[key]; first != nil {
			first.err = fmt.Errorf("%w: the entity stands twice in the request", kerr.InvalidRequest)
			continue
		}
		at[key] = a
		if a.change, a.err = quotaChange(a.in); a.err != nil {
			a.change = projections.QuotasChanged{}
		}
		out = append(out, a)
	}
	return out
}

// entityKey is the same for what names the same parts: of one kind the last counts.
func entityKey(in []kmsg.AlterClientQuotasRequestEntryEntity) string {
	parts := map[string]string{}
	for _, p := range in {
		if p.Name == nil {
			parts[p.Type] = "default"
		} else {
			parts[p.Type] = "=" + *p.Name
		}
	}
	return fmt.Sprintf("%q", parts) // in order
}

// quotaChange is the change that an entry asks for, if it may.
func quotaChange(in *kmsg.AlterClientQuotasRequestEntry) (c projections.QuotasChanged, err error) {
	if c.Entity, err = quotaEntity(in.Entity); err != nil {
		return c, err
	}
	c.Set = projections.QuotaValues{}
	seen := map[string]bool{}
	for _, op := range in.Ops {
		if seen[op.Key] {
			return c, fmt.Errorf("%w: %.100q stands twice", kerr.InvalidRequest, op.Key)
		}
		if seen[op.Key] = true; op.Remove {
			c.Deleted = append(c.Deleted, op.Key)
			continue
		}
		if err := projections.ValidateQuota(c.Entity, op.Key, op.Value); err != nil {
			return c, err
		}
		c.Set[op.Key] = op.Value
	}
	return c, nil
}

func quotaEntity(in []kmsg.AlterClientQuotasRequestEntryEntity) (e projections.QuotaEntity, err error) {
	for _, p := range in {
		name := projections.QuotaName{Default: true}
		if p.Name != nil {
			name = projections.QuotaName{Name: *p.Name}
		}
		switch p.Type {
		case projections.QuotaUser:
			e.User = name
		case projections.QuotaClientID:
			e.ClientID = name
		case projections.QuotaIP:
			e.IP = name
		default:
			return e, fmt.Errorf("%w: %.100q is no type of entities", kerr.InvalidRequest, p.Type)
		}
		if name.IsZero() {
			return e, fmt.Errorf("%w: the name of the %s is empty", kerr.InvalidRequest, p.Type)
		}
	}
	return e, projections.ValidateQuotaEntity(e)
}
