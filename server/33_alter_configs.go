package server

// AlterConfigs, key 33, versions 0 to 2.
//
// What the request names becomes all that is set for the resource: every other key
// goes back to its default. Topics, a broker by its ID, all brokers by the empty
// name, consumer groups and subscriptions to clients' metrics, whether or not they are
// there. A resource is changed whole or not at all.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var alterConfigsAPI = api{key: kmsg.AlterConfigs, min: 0, max: 2, forward: true, access: checks(right{acl.AlterConfigs, acl.Cluster}, right{acl.AlterConfigs, acl.Topic}, right{acl.AlterConfigs, acl.Group}), start: (*Server).alterConfigs}

func (s *Server) alterConfigs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AlterConfigsRequest)
	as := make([]alteration, len(req.Resources))
	for i := range req.Resources {
		in := &req.Resources[i]
		as[i] = alteration{configResource: configResource{in.ResourceType, in.ResourceName}, replace: true}
		for _, c := range in.Configs {
			as[i].ops = append(as[i].ops, configOp{c.Name, kmsg.IncrementalAlterConfigOpSet, c.Value})
		}
	}
	return s.alterInTurn(r, as, req.ValidateOnly, func(done []altered) kmsg.Response {
		resp := kmsg.NewPtrAlterConfigsResponse()
		for _, d := range done {
			out := kmsg.NewAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = d.kind, d.name, d.code, d.message
			resp.Resources = append(resp.Resources, out)
		}
		return resp
	})
}
