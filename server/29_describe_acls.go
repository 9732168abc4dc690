package server

// DescribeAcls, key 29, versions 1 to 3 (KIP-140, KIP-290).
//
// The ACLs that a filter chooses, by what they are for. Without an authorizer there are none,
// which is SECURITY_DISABLED. A filter for what has no number that Kafka knows costs the
// connection.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var describeACLsAPI = api{key: kmsg.DescribeACLs, min: 1, max: 3, wide: true, malformed: malformedDescribeACLs, access: onCluster(acl.Describe), start: (*Server).describeACLs}

var errUnknownACL = errors.New("it is about ACLs of unknown kinds")

func malformedDescribeACLs(req kmsg.Request) error {
	if f := describeFilter(req.(*kmsg.DescribeACLsRequest)); !f.Known() {
		return errUnknownACL
	}
	return nil
}

func (s *Server) describeACLs(_ context.Context, r *request) (reply, error) {
	resp := kmsg.NewPtrDescribeACLsResponse()
	if err := orElse(r.refused, s.securityDisabled); err != nil {
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.DescribeACLs, err), message(err)
		return now(resp)
	}
	f := describeFilter(r.msg.(*kmsg.DescribeACLsRequest))
	for _, a := range s.backend.View().ACLs().All() {
		if f.Matches(a) {
			if !r.room(elementBytes + len(a.Name) + len(a.Principal) + len(a.Host)) {
				break
			}
			addACL(resp, a)
		}
	}
	return now(resp)
}

// addACL adds an ACL to an answer, which has them in the view's order, so that those for the
// same resource stand together.
func addACL(resp *kmsg.DescribeACLsResponse, a projections.ACL) {
	kind, pattern := kmsg.ACLResourceType(a.Resource), kmsg.ACLResourcePatternType(a.Pattern)
	n := len(resp.Resources)
	if n == 0 || resp.Resources[n-1].ResourceType != kind || resp.Resources[n-1].ResourceName != a.Name || resp.Resources[n-1].ResourcePatternType != pattern {
		out := kmsg.NewDescribeACLsResponseResource()
		out.ResourceType, out.ResourceName, out.ResourcePatternType = kind, a.Name, pattern
		resp.Resources = append(resp.Resources, out)
		n++
	}
	o := kmsg.NewDescribeACLsResponseResourceACL()
	o.Principal, o.Host, o.Operation, o.PermissionType = a.Principal, a.Host, kmsg.ACLOperation(a.Operation), kmsg.ACLPermissionType(a.Permission)
	resp.Resources[n-1].ACLs = append(resp.Resources[n-1].ACLs, o)
}

func describeFilter(req *kmsg.DescribeACLsRequest) acl.Filter {
	return acl.Filter{Resource: acl.Resource(req.ResourceType), Pattern: projections.ACLPattern(req.ResourcePatternType), Name: req.ResourceName,
		Principal: req.Principal, Host: req.Host, Operation: acl.Operation(req.Operation), Permission: projections.ACLPermission(req.PermissionType)}
}

// securityDisabled is why there are no ACLs to speak of, or nil.
func (s *Server) securityDisabled() error {
	if s.authorizer.on() {
		return nil
	}
	return kerr.SecurityDisabled
}
