package server

// Heartbeat, key 12, versions 0 to 4.
//
// While the group's shard is being opened the member is told that all is well: clients
// take COORDINATOR_LOAD_IN_PROGRESS for fatal here. Static members are known by their
// instance ID, too, from version 3.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/server/acl"
)

var heartbeatAPI = api{key: kmsg.Heartbeat, min: 0, max: 4, access: checks(right{acl.Read, acl.Group}), start: (*Server).heartbeat}

func (s *Server) heartbeat(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.HeartbeatRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		shard, err := s.memberShard(r, req.Group)
		if err == nil {
			err = shard.Heartbeat(ctx, req.Group, req.MemberID, req.InstanceID, req.Generation)
		}
		if errors.Is(err, kerr.CoordinatorLoadInProgress) {
			err = nil
		}
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = s.groupFailure(kmsg.Heartbeat, err)
		return resp
	})
}
