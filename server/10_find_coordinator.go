package server

// FindCoordinator, key 10, versions 0 to 6.
//
// This broker answers itself for groups (type 0) and transactional IDs (type 1).
// Share-group keys (type 2) are between brokers, and refused. Many keys at once from
// version 4.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var findCoordinatorAPI = api{key: kmsg.FindCoordinator, min: 0, max: 6, start: (*Server).findCoordinator}

func (s *Server) findCoordinator(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.FindCoordinatorRequest)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if req.Version < 4 {
		c := s.coordinatorOf(r, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
		return now(resp)
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, s.coordinatorOf(r, req.CoordinatorType, key))
	}
	return now(resp)
}

func (s *Server) coordinatorOf(r *request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.NodeID, out.Port = key, -1, -1
	err := error(kerr.CoordinatorNotAvailable)
	if kind != 0 && kind != 1 {
		err = kerr.InvalidRequest
	} else if b, ok := s.backend.View().Broker(s.cfg.NodeID); ok {
		if n, ok := s.nodeOf(b, r.conn); ok {
			out.NodeID, out.Host, out.Port = n.id, n.host, n.port
			err = nil
		}
	}
	out.ErrorCode, out.ErrorMessage = s.failure(kmsg.FindCoordinator, err), message(err)
	return out
}
