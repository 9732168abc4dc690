package server

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

// fillACLs fills the requests about ACLs, which no broker has without an authorizer; nil if
// it does not know them.
func (s *sweepTopics) fillACLs(req kmsg.Request) func(kmsg.Response) error {
	disabled := func(n int, code func(int) int16) error {
		for i := range n {
			if code(i) != kerr.SecurityDisabled.Code {
				return fmt.Errorf("error %d", code(i))
			}
		}
		if n != 2 {
			return fmt.Errorf("%d answers", n)
		}
		return nil
	}
	switch r := req.(type) {
	case *kmsg.DescribeACLsRequest:
		anyACL(r)
		return func(resp kmsg.Response) error {
			d := resp.(*kmsg.DescribeACLsResponse)
			return disabled(2, func(int) int16 { return d.ErrorCode })
		}
	case *kmsg.CreateACLsRequest:
		for _, name := range s.names {
			r.Creations = append(r.Creations, creation(projections.ACL{Resource: acl.Topic, Pattern: projections.ACLLiteral, Name: name,
				Principal: "User:alice", Host: "*", Operation: acl.Read, Permission: projections.ACLAllow}))
		}
		return func(resp kmsg.Response) error {
			rs := resp.(*kmsg.CreateACLsResponse).Results
			return disabled(len(rs), func(i int) int16 { return rs[i].ErrorCode })
		}
	case *kmsg.DeleteACLsRequest:
		r.Filters = []kmsg.DeleteACLsRequestFilter{anyFilter(), anyFilter()}
		return func(resp kmsg.Response) error {
			rs := resp.(*kmsg.DeleteACLsResponse).Results
			return disabled(len(rs), func(i int) int16 { return rs[i].ErrorCode })
		}
	}
	return nil
}

// anyACL has a request ask for all ACLs.
func anyACL(r *kmsg.DescribeACLsRequest) {
	r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
}

// anyFilter chooses all ACLs.
func anyFilter() kmsg.DeleteACLsRequestFilter {
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourcePatternType, f.Operation, f.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return f
}

func creation(a projections.ACL) kmsg.CreateACLsRequestCreation {
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = kmsg.ACLResourceType(a.Resource), a.Name, kmsg.ACLResourcePatternType(a.Pattern)
	c.Principal, c.Host, c.Operation, c.PermissionType = a.Principal, a.Host, kmsg.ACLOperation(a.Operation), kmsg.ACLPermissionType(a.Permission)
	return c
}

// minimal is a request that asks for as little as may be asked.
func minimal(a api, version int16) kmsg.Request {
	req := kmsg.RequestForKey(int16(a.key))
	req.SetVersion(version)
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks = 1 // 0 has no answer
	case *kmsg.DescribeACLsRequest:
		anyACL(r) // what is unknown costs the connection
	}
	return req
}
