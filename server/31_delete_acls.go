package server

// DeleteAcls, key 31, versions 1 to 3 (KIP-140, KIP-290).
//
// Deletes what any of the filters chooses, all in one change, and tells each filter's. A
// request has at most 1,000 filters, for each is held against all ACLs there are.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var deleteACLsAPI = api{key: kmsg.DeleteACLs, min: 1, max: 3, malformed: malformedDeleteACLs, forward: true, access: onCluster(acl.Alter), start: (*Server).deleteACLs}

// mostACLsTold bounds how often one ACL and another is told as deleted.
const mostACLsTold = 200_000

const mostACLFilters = 1000

func malformedDeleteACLs(req kmsg.Request) error {
	for _, f := range req.(*kmsg.DeleteACLsRequest).Filters {
		if f := deleteFilter(f); !f.Known() {
			return errUnknownACL
		}
	}
	return nil
}

func (s *Server) deleteACLs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DeleteACLsRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := context.WithTimeout(ctx, alterTimeout)
		defer cancel()
		err := orElse(r.refused, s.securityDisabled)
		if err == nil && len(req.Filters) > mostACLFilters {
			err = fmt.Errorf("%w: more than %d filters", kerr.InvalidRequest, mostACLFilters)
		}
		gone := make([]chosenACLs, len(req.Filters))
		if err == nil {
			err = s.dropACLs(ctx, req.Filters, gone)
		}
		resp := kmsg.NewPtrDeleteACLsResponse()
		for i := range req.Filters {
			o := kmsg.NewDeleteACLsResponseResult()
			if o.ErrorCode, o.ErrorMessage = s.failure(kmsg.DeleteACLs, err), r.message(err); err == nil {
				o.MatchingACLs = gone[i].told()
			}
			resp.Results = append(resp.Results, o)
		}
		return resp
	})
}

// chosenACLs are what a filter chooses, in order.
type chosenACLs struct {
	acls []projections.ACL
	seen map[projections.ACL]bool
}

func (c *chosenACLs) add(a projections.ACL) {
	if c.seen[a] {
		return
	}
	if c.seen == nil {
		c.seen = map[projections.ACL]bool{}
	}
	c.seen[a] = true
	c.acls = append(c.acls, a)
}

func (c *chosenACLs) told() (out []kmsg.DeleteACLsResponseResultMatchingACL) {
	for _, a := range c.acls {
		o := kmsg.NewDeleteACLsResponseResultMatchingACL()
		o.ResourceType, o.ResourceName, o.ResourcePatternType = kmsg.ACLResourceType(a.Resource), a.Name, kmsg.ACLResourcePatternType(a.Pattern)
		o.Principal, o.Host, o.Operation, o.PermissionType = a.Principal, a.Host, kmsg.ACLOperation(a.Operation), kmsg.ACLPermissionType(a.Permission)
		out = append(out, o)
	}
	return out
}

// dropACLs deletes what filters choose and tells which each of them has chosen, also where the
// change had to be made again: then nothing is there any more of what it has deleted.
func (s *Server) dropACLs(ctx context.Context, in []kmsg.DeleteACLsRequestFilter, chosen []chosenACLs) error {
	return s.backend.AlterACLs(ctx, func(view *projections.Cluster) (created, deleted []projections.ACL, err error) {
		for _, a := range view.ACLs().All() {
			for i := range in {
				if f := deleteFilter(in[i]); f.Matches(a) {
					if deleted = append(deleted, a); len(deleted) > mostACLsTold {
						return nil, nil, fmt.Errorf("%w: the filters match more than %d times", kerr.InvalidRequest, mostACLsTold)
					}
					chosen[i].add(a)
				}
			}
		}
		return nil, deleted, nil
	})
}

func deleteFilter(f kmsg.DeleteACLsRequestFilter) acl.Filter {
	return acl.Filter{Resource: acl.Resource(f.ResourceType), Pattern: projections.ACLPattern(f.ResourcePatternType), Name: f.ResourceName,
		Principal: f.Principal, Host: f.Host, Operation: acl.Operation(f.Operation), Permission: projections.ACLPermission(f.PermissionType)}
}
