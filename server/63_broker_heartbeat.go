package server

// BrokerHeartbeat, key 63, versions 0 to 2; between brokers.
//
// Answered by the controller, NOT_CONTROLLER by others. The end of the connection that
// carried a broker's newest heartbeat is told to the backend. What brokers tell each
// other beyond Kafka's fields stands in unknown tags, which the backend reads and writes:
// 10000 is a position of the metadata, 10001 partitions that are not served, 10002 the ID
// of the data session.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var brokerHeartbeatAPI = api{key: kmsg.BrokerHeartbeat, min: 0, max: 2, inner: true, access: onCluster(acl.ClusterAction), start: (*Server).brokerHeartbeat}

func (s *Server) brokerHeartbeat(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.BrokerHeartbeatRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrBrokerHeartbeatResponse()
		switch {
		case r.refused != nil:
			resp.ErrorCode = codeOf(r.refused)
		case s.backend.IsController():
			resp = s.backend.BrokerHeartbeat(ctx, req)
		default:
			resp.ErrorCode = kerr.NotController.Code
		}
		if resp.ErrorCode == 0 {
			s.beats.note(req.BrokerID, beat{epoch: req.BrokerEpoch, at: r.arrived, conn: r.conn})
		}
		return resp, s.noted(kmsg.BrokerHeartbeat, resp.ErrorCode)
	})
}
