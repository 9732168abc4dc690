package server

// DescribeCluster, key 60, versions 0 to 2.
//
// Brokers only: who asks for controllers (endpoint type 2, from version 1) is told
// that this is not one of their listeners. Fenced brokers on request, from version 2.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var describeClusterAPI = api{key: kmsg.DescribeCluster, min: 0, max: 2, access: checks(right{acl.Describe, acl.Cluster}), start: (*Server).describeCluster}

func (s *Server) describeCluster(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	view := s.backend.View()
	resp.ClusterID, resp.ControllerID = s.clusterID, s.controllerFor(r.conn, view)
	if req.Version >= 1 && req.EndpointType != 1 {
		err := kerr.UnsupportedEndpointType
		if req.EndpointType == 2 {
			err = kerr.MismatchedEndpointType
		}
		resp.ClusterID, resp.EndpointType, resp.ControllerID = "", 1, -1
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.DescribeCluster, err), message(err)
		return now(resp)
	}
	resp.EndpointType = 1
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = r.clusterOperations()
	}
	for _, n := range s.nodes(view, r.conn, req.IncludeFencedBrokers) {
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = n.id, n.host, n.port, n.rack
		if known, ok := view.Broker(n.id); ok {
			b.IsFenced = known.Fenced
		}
		resp.Brokers = append(resp.Brokers, b)
	}
	return now(resp)
}
