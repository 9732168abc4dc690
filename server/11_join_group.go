package server

// JoinGroup, key 11, versions 0 to 9.
//
// Answered when the rebalance has gathered its members. From version 4 a member without
// an ID is first told one (MEMBER_ID_REQUIRED, KIP-394), unless it is static (from version
// 5, KIP-345). Version 0 has no timeout for rebalances: it is the session's. The protocol's
// type is told from version 7; from version 9 a static leader that comes back may be
// told to keep the assignment as it is (KIP-814). The members are told to the leader alone.

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
)

var joinGroupAPI = api{key: kmsg.JoinGroup, min: 0, max: 9, access: checks(right{acl.Read, acl.Group}), start: (*Server).joinGroup}

func (s *Server) joinGroup(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.JoinGroupRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.MemberID = req.MemberID
		shard, err := s.memberShard(r, req.Group)
		if err == nil && tooLong(req) {
			err = kerr.InvalidRequest
		}
		if err != nil {
			resp.ErrorCode = s.groupFailure(kmsg.JoinGroup, err)
			return resp
		}
		a := shard.Join(ctx, req.Group, joinRequest(r, req))
		if a.MemberID != "" {
			resp.MemberID = a.MemberID
		}
		if a.Err != nil {
			resp.ErrorCode = s.groupFailure(kmsg.JoinGroup, a.Err)
			return resp
		}
		resp.Generation, resp.ProtocolType, resp.Protocol = a.Generation, &a.ProtocolType, &a.Protocol
		resp.LeaderID, resp.SkipAssignment = a.Leader, a.SkipAssignment
		for _, m := range a.Members {
			o := kmsg.NewJoinGroupResponseMember()
			o.MemberID, o.InstanceID, o.ProtocolMetadata = m.MemberID, m.InstanceID, m.Metadata
			resp.Members = append(resp.Members, o)
		}
		return resp
	})
}

// tooLong reports a string that not every version of the answers to others could hold.
func tooLong(req *kmsg.JoinGroupRequest) bool {
	n := max(len(req.MemberID), len(or(req.InstanceID, "")), len(req.ProtocolType))
	for i := range req.Protocols {
		n = max(n, len(req.Protocols[i].Name))
	}
	return n > maxString
}

func joinRequest(r *request, req *kmsg.JoinGroupRequest) classic.JoinRequest {
	out := classic.JoinRequest{
		MemberID: req.MemberID, InstanceID: req.InstanceID, ClientID: r.clientID, Host: r.host(), Tenant: r.tenant(),
		ProtocolType:     req.ProtocolType,
		SessionTimeout:   time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		RebalanceTimeout: time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		RequireKnownID:   req.Version >= 4,
		SkipAssignment:   req.Version >= 9,
		Reason:           or(req.Reason, ""),
	}
	for _, p := range req.Protocols {
		out.Protocols = append(out.Protocols, groups.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	return out
}
