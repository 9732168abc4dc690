package server

// CreateAcls, key 30, versions 1 to 3 (KIP-140, KIP-290).
//
// Each ACL is judged for itself; all that are sound are made in one change, and one that is
// there already is no error. They act on this broker once they are answered, and on the
// others a moment later. There is an end to how many there may be (POLICY_VIOLATION) and to
// how many a request may make (INVALID_REQUEST).

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var createACLsAPI = api{key: kmsg.CreateACLs, min: 1, max: 3, malformed: malformedCreateACLs, forward: true, access: onCluster(acl.Alter), start: (*Server).createACLs}

func malformedCreateACLs(req kmsg.Request) error {
	for _, c := range req.(*kmsg.CreateACLsRequest).Creations {
		if a := createdACL(c); !a.Resource.Known() || !a.Pattern.Known() || !a.Operation.Known() || !a.Permission.Known() {
			return errUnknownACL
		}
	}
	return nil
}

func (s *Server) createACLs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.CreateACLsRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, alterTimeout)
		defer cancel()
		resp := kmsg.NewPtrCreateACLsResponse()
		for _, err := range s.makeACLs(ctx, r, req.Creations) {
			o := kmsg.NewCreateACLsResponseResult()
			o.ErrorCode, o.ErrorMessage = s.failure(kmsg.CreateACLs, err), r.message(err)
			resp.Results = append(resp.Results, o)
		}
		return resp
	})
}

// makeACLs returns an error or nil for each.
func (s *Server) makeACLs(ctx context.Context, r *request, in []kmsg.CreateACLsRequestCreation) []error {
	errs := make([]error, len(in))
	var sound []projections.ACL
	refused := orElse(r.refused, s.securityDisabled)
	for i, c := range in {
		a := createdACL(c)
		if errs[i] = orElse(refused, a.Validate); errs[i] == nil {
			sound = append(sound, a)
		}
	}
	if len(sound) == 0 {
		return errs
	}
	err := s.backend.AlterACLs(ctx, func(*projections.Cluster) (created, deleted []projections.ACL, err error) { return sound, nil, nil })
	for i := range errs {
		errs[i] = orElse(errs[i], func() error { return err })
	}
	return errs
}

func createdACL(c kmsg.CreateACLsRequestCreation) projections.ACL {
	return projections.ACL{Resource: acl.Resource(c.ResourceType), Pattern: projections.ACLPattern(c.ResourcePatternType), Name: c.ResourceName,
		Principal: c.Principal, Host: c.Host, Operation: acl.Operation(c.Operation), Permission: projections.ACLPermission(c.PermissionType)}
}
