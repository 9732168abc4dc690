package server

// DescribeGroups, key 15, versions 0 to 6.
//
// Groups of the classic protocol. One that is not there, or is of another protocol, is
// Dead, and from version 6 GROUP_ID_NOT_FOUND besides: clients ask ConsumerGroupDescribe
// first. A group that stands twice is answered once. Members' metadata and assignments are told while the group is Stable. What
// the asker may do with a group is told from version 3.

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/server/acl"
)

var describeGroupsAPI = api{key: kmsg.DescribeGroups, min: 0, max: 6, wide: true, access: checks(right{acl.Describe, acl.Group}), start: (*Server).describeGroups}

func (s *Server) describeGroups(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeGroupsRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		names := distinct(req.Groups, itself)
		resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(names))
		inParallel(len(names), func(i int) { resp.Groups[i] = s.describeClassic(ctx, r, names[i]) })
		return resp
	})
}

func (s *Server) describeClassic(ctx context.Context, r *request, group string) kmsg.DescribeGroupsResponseGroup {
	req := r.msg.(*kmsg.DescribeGroupsRequest)
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group = group
	if !r.room(2*elementBytes + len(group)) {
		return out
	}
	d, err := groupshard.Description{}, r.deniedGroup(acl.Describe, group)
	if err == nil {
		d, err = s.describe(ctx, group)
	}
	if err == nil && d.Classic == nil {
		err = fmt.Errorf("%w: group %.200q is not a classic group", kerr.GroupIDNotFound, group)
	}
	if errors.Is(err, kerr.GroupIDNotFound) {
		out.State = "Dead"
		if req.Version < 6 {
			err = nil
		}
		d.Classic = nil
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = s.groupTold(kmsg.DescribeGroups, err)
		return out
	}
	if req.IncludeAuthorizedOperations {
		out.AuthorizedOperations = r.subject.Operations(acl.Group, group)
	}
	if d.Classic != nil {
		describedClassic(r, &out, d.Classic)
	}
	return out
}

func (s *Server) describe(ctx context.Context, group string) (groupshard.Description, error) {
	shard, err := s.backend.GroupShard(group)
	if err != nil {
		return groupshard.Description{}, err
	}
	return shard.Describe(ctx, group)
}

func describedClassic(r *request, out *kmsg.DescribeGroupsResponseGroup, d *classic.Description) {
	out.State, out.ProtocolType, out.Protocol = d.State, d.ProtocolType, d.Protocol
	for _, m := range d.Members {
		if !r.room(elementBytes + len(m.MemberID) + len(m.ClientID) + len(m.Metadata) + len(m.Assignment)) {
			return
		}
		o := kmsg.NewDescribeGroupsResponseGroupMember()
		o.MemberID, o.InstanceID, o.ClientID, o.ClientHost = m.MemberID, m.InstanceID, m.ClientID, m.Host
		o.ProtocolMetadata, o.MemberAssignment = m.Metadata, m.Assignment
		out.Members = append(out.Members, o)
	}
}
