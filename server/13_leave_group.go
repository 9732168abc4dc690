package server

// LeaveGroup, key 13, versions 0 to 5.
//
// One member up to version 2, whose error is the answer's. Many from version 3, each with
// its own, by member ID or, for static members, by instance ID alone; the answer's own
// error is of the whole group.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/server/acl"
)

var leaveGroupAPI = api{key: kmsg.LeaveGroup, min: 0, max: 5, access: checks(right{acl.Read, acl.Group}), start: (*Server).leaveGroup}

func (s *Server) leaveGroup(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.LeaveGroupRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		members := leaving(req)
		errs, err := s.leave(ctx, r, req.Group, members)
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = s.groupFailure(kmsg.LeaveGroup, err)
		if err != nil {
			return resp
		}
		for i, m := range members {
			o := kmsg.NewLeaveGroupResponseMember()
			o.MemberID, o.InstanceID, o.ErrorCode = m.MemberID, m.InstanceID, s.groupFailure(kmsg.LeaveGroup, errs[i])
			resp.Members = append(resp.Members, o)
		}
		if req.Version < 3 {
			resp.ErrorCode = resp.Members[0].ErrorCode
		}
		return resp
	})
}

func leaving(req *kmsg.LeaveGroupRequest) []classic.LeaveMember {
	if req.Version < 3 {
		return []classic.LeaveMember{{MemberID: req.MemberID}}
	}
	out := make([]classic.LeaveMember, 0, len(req.Members))
	for _, m := range req.Members {
		out = append(out, classic.LeaveMember{MemberID: m.MemberID, InstanceID: m.InstanceID, Reason: or(m.Reason, "")})
	}
	return out
}

// leave returns an error or nil for each member, or one for the group. Nobody is a member
// of a group that is not there.
func (s *Server) leave(ctx context.Context, r *request, group string, members []classic.LeaveMember) ([]error, error) {
	shard, err := s.memberShard(r, group)
	if err != nil {
		return nil, err
	}
	errs, err := shard.Leave(ctx, group, members)
	if errors.Is(err, kerr.UnknownMemberID) {
		errs = make([]error, len(members))
		for i := range errs {
			errs[i] = err
		}
		err = nil
	}
	return errs, err
}
