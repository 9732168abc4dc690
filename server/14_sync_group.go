package server

// SyncGroup, key 14, versions 0 to 5.
//
// Answered when the leader's assignments have come and are committed. While the group's
// shard is being opened the member is told to join again (REBALANCE_IN_PROGRESS): clients
// take COORDINATOR_LOAD_IN_PROGRESS for fatal here. Version 5 names the protocol and its
// type, in request and answer.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/server/acl"
)

var syncGroupAPI = api{key: kmsg.SyncGroup, min: 0, max: 5, access: checks(right{acl.Read, acl.Group}), start: (*Server).syncGroup}

func (s *Server) syncGroup(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.SyncGroupRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrSyncGroupResponse()
		a := s.sync(ctx, r, req)
		if errors.Is(a.Err, kerr.CoordinatorLoadInProgress) {
			a.Err = kerr.RebalanceInProgress
		}
		if a.Err != nil {
			resp.ErrorCode = s.groupFailure(kmsg.SyncGroup, a.Err)
			return resp
		}
		resp.ProtocolType, resp.Protocol, resp.MemberAssignment = &a.ProtocolType, &a.Protocol, a.Assignment
		return resp
	})
}

func (s *Server) sync(ctx context.Context, r *request, req *kmsg.SyncGroupRequest) classic.SyncAnswer {
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		return classic.SyncAnswer{Err: kerr.InconsistentGroupProtocol}
	}
	shard, err := s.memberShard(r, req.Group)
	if err != nil {
		return classic.SyncAnswer{Err: err}
	}
	in := classic.SyncRequest{MemberID: req.MemberID, InstanceID: req.InstanceID, Generation: req.Generation,
		ProtocolType: req.ProtocolType, Protocol: req.Protocol, Assignments: map[string][]byte{}}
	for _, a := range req.GroupAssignment {
		in.Assignments[a.MemberID] = a.MemberAssignment
	}
	return shard.Sync(ctx, req.Group, in)
}
