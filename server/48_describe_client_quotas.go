package server

// DescribeClientQuotas, key 48, versions 0 and 1 (KIP-546).
//
// Quotas of the entities that have all the parts that are asked for, and with strict no
// others. A part is asked for by its name, as the default, or as any. A filter that means
// nothing is INVALID_REQUEST, and a part that Kafka does not have UNSUPPORTED_VERSION.

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var describeClientQuotasAPI = api{key: kmsg.DescribeClientQuotas, min: 0, max: 1, wide: true, access: onCluster(acl.DescribeConfigs), start: (*Server).describeClientQuotas}

func (s *Server) describeClientQuotas(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeClientQuotasRequest)
	resp := kmsg.NewPtrDescribeClientQuotasResponse()
	f, err := quotaFilterOf(req)
	if r.refused != nil {
		err = r.refused
	}
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.DescribeClientQuotas, err), message(err)
		return now(resp)
	}
	resp.ErrorMessage = new(string)
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	quotas := s.backend.View().Quotas()
	for _, e := range quotas.Entities() {
		if f.matches(e) {
			if !r.room(4 * elementBytes) {
				break
			}
			resp.Entries = append(resp.Entries, quotaEntry(e, quotas.Of(e)))
		}
	}
	return now(resp)
}

func quotaEntry(e projections.QuotaEntity, set projections.QuotaValues) kmsg.DescribeClientQuotasResponseEntry {
	out := kmsg.NewDescribeClientQuotasResponseEntry()
	for _, p := range e.Parts() {
		o := kmsg.NewDescribeClientQuotasResponseEntryEntity()
		if o.Type = p.Kind; !p.Name.Default {
			o.Name = &p.Name.Name
		}
		out.Entity = append(out.Entity, o)
	}
	for _, k := range slices.Sorted(maps.Keys(set)) {
		v := kmsg.NewDescribeClientQuotasResponseEntryValue()
		v.Key, v.Value = k, set[k]
		out.Values = append(out.Values, v)
	}
	return out
}

// quotaFilter is what a request asks for, by the kind of the part.
type quotaFilter struct {
	parts  map[string]projections.QuotaName // the zero name is any
	strict bool
}

func (f *quotaFilter) matches(e projections.QuotaEntity) bool {
	found := 0
	for _, p := range e.Parts() {
		want, ok := f.parts[p.Kind]
		switch {
		case ok && !want.IsZero() && want != p.Name:
			return false
		case ok:
			found++
		case f.strict:
			return false
		}
	}
	return found == len(f.parts)
}

func quotaFilterOf(req *kmsg.DescribeClientQuotasRequest) (*quotaFilter, error) {
	f := &quotaFilter{parts: map[string]projections.QuotaName{}, strict: req.Strict}
	bad := func(format string, a ...any) (*quotaFilter, error) {
		return nil, fmt.Errorf("%w: %s", kerr.InvalidRequest, fmt.Sprintf(format, a...))
	}
	for i := range req.Components {
		c := &req.Components[i]
		if _, twice := f.parts[c.EntityType]; twice {
			return bad("%.100q stands twice in the filter", c.EntityType)
		}
		switch c.EntityType {
		case projections.QuotaUser, projections.QuotaClientID, projections.QuotaIP:
		case "":
			return bad("a part of the filter has no type")
		default:
			return nil, fmt.Errorf("%w: %.100q is no type of entities", kerr.UnsupportedVersion, c.EntityType)
		}
		named := c.MatchType == kmsg.QuotasMatchTypeExact
		switch {
		case !named && c.MatchType != kmsg.QuotasMatchTypeDefault && c.MatchType != kmsg.QuotasMatchTypeAny:
			return bad("match type %d is unknown", c.MatchType)
		case named != (c.Match != nil):
			return bad("the filter of %s has a name if and only if it is exact", c.EntityType)
		case named:
			f.parts[c.EntityType] = projections.QuotaName{Name: *c.Match}
		default:
			f.parts[c.EntityType] = projections.QuotaName{Default: c.MatchType == kmsg.QuotasMatchTypeDefault}
		}
	}
	_, ip := f.parts[projections.QuotaIP]
	if ip && len(f.parts) > 1 {
		return bad("quotas of an address are not of a user or client ID, too")
	}
	return f, nil
}
