package server

// IncrementalAlterConfigs, key 44, versions 0 and 1 (KIP-339).
//
// Only the keys that are named change: SET and DELETE any, APPEND and SUBTRACT lists,
// where a key that is not set counts as what it inherits. Resources as for
// AlterConfigs, and the loggers of the broker that is asked (KIP-412).

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var incrementalAlterConfigsAPI = api{key: kmsg.IncrementalAlterConfigs, min: 0, max: 1, forward: true, access: checks(right{acl.AlterConfigs, acl.Cluster}, right{acl.AlterConfigs, acl.Topic}, right{acl.AlterConfigs, acl.Group}), start: (*Server).incrementalAlterConfigs}

func (s *Server) incrementalAlterConfigs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.IncrementalAlterConfigsRequest)
	as := make([]alteration, len(req.Resources))
	for i := range req.Resources {
		in := &req.Resources[i]
		as[i] = alteration{configResource: configResource{in.ResourceType, in.ResourceName}}
		for _, c := range in.Configs {
			as[i].ops = append(as[i].ops, configOp{c.Name, c.Op, c.Value})
		}
	}
	return s.alterInTurn(r, as, req.ValidateOnly, func(done []altered) kmsg.Response {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, d := range done {
			out := kmsg.NewIncrementalAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = d.kind, d.name, d.code, d.message
			resp.Resources = append(resp.Resources, out)
		}
		return resp
	})
}
