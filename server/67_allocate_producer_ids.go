package server

// AllocateProducerIds, key 67, version 0; between brokers.
//
// Answered by the controller, NOT_CONTROLLER by others. An ID of no registered broker is
// BROKER_ID_NOT_REGISTERED, an earlier registration's STALE_BROKER_EPOCH.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var allocateProducerIDsAPI = api{key: kmsg.AllocateProducerIDs, min: 0, max: 0, inner: true, access: onCluster(acl.ClusterAction), start: (*Server).allocateProducerIDs}

func (s *Server) allocateProducerIDs(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AllocateProducerIDsRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrAllocateProducerIDsResponse()
		first, count, err := s.blockFor(ctx, r, req)
		resp.ProducerIDStart, resp.ProducerIDLen = first, int32(count)
		resp.ErrorCode = s.failure(kmsg.AllocateProducerIDs, err)
		return resp, nil
	})
}

func (s *Server) blockFor(ctx context.Context, r *request, req *kmsg.AllocateProducerIDsRequest) (first, count int64, err error) {
	known, ok := s.backend.View().Broker(req.BrokerID)
	switch {
	case r.refused != nil:
		return 0, 0, r.refused
	case !s.backend.IsController():
		return 0, 0, kerr.NotController
	case !ok:
		return 0, 0, kerr.BrokerIDNotRegistered
	case known.Epoch != req.BrokerEpoch:
		return 0, 0, kerr.StaleBrokerEpoch
	}
	return s.backend.AllocateProducerIDs(ctx)
}
