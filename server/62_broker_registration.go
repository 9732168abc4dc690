package server

// BrokerRegistration, key 62, versions 0 to 4; between brokers.
//
// Answered by the controller, NOT_CONTROLLER by others. A broker of another cluster is
// INCONSISTENT_CLUSTER_ID.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var brokerRegistrationAPI = api{key: kmsg.BrokerRegistration, min: 0, max: 4, inner: true, access: onCluster(acl.ClusterAction), start: (*Server).brokerRegistration}

func (s *Server) brokerRegistration(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.BrokerRegistrationRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrBrokerRegistrationResponse()
		switch {
		case r.refused != nil:
			resp.ErrorCode = codeOf(r.refused)
		case !s.backend.IsController():
			resp.ErrorCode = kerr.NotController.Code
		case req.ClusterID != s.clusterID:
			resp.ErrorCode = kerr.InconsistentClusterID.Code
		default:
			resp = s.backend.RegisterBroker(ctx, req)
		}
		return resp, s.noted(kmsg.BrokerRegistration, resp.ErrorCode)
	})
}

// noted counts an error code that the backend chose.
func (s *Server) noted(key kmsg.Key, code int16) error {
	if code != 0 {
		s.metrics.failed(key, code)
	}
	return nil
}
