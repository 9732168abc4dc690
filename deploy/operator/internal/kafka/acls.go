package kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ACL is one of a principal.
type ACL struct {
	Resource   kmsg.ACLResourceType
	Pattern    kmsg.ACLResourcePatternType
	Name       string
	Host       string
	Operation  kmsg.ACLOperation
	Permission kmsg.ACLPermissionType
}

// ACLs are all of a principal.
func (c *Cluster) ACLs(ctx context.Context, principal string) ([]ACL, error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType, req.Principal = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny, &principal
	resp, err := req.RequestWith(ctx, c.client())
	if err != nil {
		return nil, failed(cause(ctx, err), "", "describe the ACLs of %s", principal)
	}
	if err := code(resp.ErrorCode, resp.ErrorMessage, "describe the ACLs of %s", principal); err != nil {
		return nil, err
	}
	var out []ACL
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			out = append(out, ACL{r.ResourceType, r.ResourcePatternType, r.ResourceName, a.Host, a.Operation, a.PermissionType})
		}
	}
	return out, nil
}

// CreateACLs gives a principal these.
func (c *Cluster) CreateACLs(ctx context.Context, principal string, acls []ACL) error {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, a := range acls {
		in := kmsg.NewCreateACLsRequestCreation()
		in.ResourceType, in.ResourcePatternType, in.ResourceName, in.Principal = a.Resource, a.Pattern, a.Name, principal
		in.Host, in.Operation, in.PermissionType = a.Host, a.Operation, a.Permission
		req.Creations = append(req.Creations, in)
	}
	resp, err := req.RequestWith(ctx, c.client())
	if err == nil && len(resp.Results) != len(acls) {
		err = errors.New("the answer is about other ACLs")
	}
	if err != nil {
		return failed(cause(ctx, err), "", "give ACLs to %s", principal)
	}
	for _, r := range resp.Results {
		if err := code(r.ErrorCode, r.ErrorMessage, "give ACLs to %s", principal); err != nil {
			return err
		}
	}
	return nil
}

// mostFilters is how many ACLs one request deletes: brokers bound that.
const mostFilters = 500

// DeleteACLs takes these away from a principal.
func (c *Cluster) DeleteACLs(ctx context.Context, principal string, acls []ACL) error {
	for len(acls) > 0 {
		some := acls[:min(len(acls), mostFilters)]
		acls = acls[len(some):]
		req := kmsg.NewPtrDeleteACLsRequest()
		for _, a := range some {
			f := kmsg.NewDeleteACLsRequestFilter()
			f.ResourceType, f.ResourcePatternType, f.ResourceName, f.Principal = a.Resource, a.Pattern, &a.Name, &principal
			f.Host, f.Operation, f.PermissionType = &a.Host, a.Operation, a.Permission
			req.Filters = append(req.Filters, f)
		}
		resp, err := req.RequestWith(ctx, c.client())
		if err != nil {
			return failed(cause(ctx, err), "", "take ACLs from %s", principal)
		}
		for _, r := range resp.Results {
			if err := code(r.ErrorCode, r.ErrorMessage, "take ACLs from %s", principal); err != nil {
				return err
			}
		}
	}
	return nil
}
