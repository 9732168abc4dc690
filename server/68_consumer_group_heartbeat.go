package server

// ConsumerGroupHeartbeat, key 68, versions 0 and 1 (KIP-848).
//
// A member of the next-generation protocol joins, lives, says what it has and learns what
// it is to have, and leaves. In version 0 the broker makes the member's ID; from version 1
// the member does (KIP-1082), and may subscribe by pattern.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
)

var consumerGroupHeartbeatAPI = api{key: kmsg.ConsumerGroupHeartbeat, min: 0, max: 1, access: checks(right{acl.Read, acl.Group}, right{acl.Describe, acl.Topic}), start: (*Server).consumerGroupHeartbeat}

func (s *Server) consumerGroupHeartbeat(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ConsumerGroupHeartbeatRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		got, err := s.consumerHeartbeat(ctx, r, req)
		if err != nil {
			resp.ErrorCode, resp.ErrorMessage = s.groupTold(kmsg.ConsumerGroupHeartbeat, err)
			return resp
		}
		resp.MemberID, resp.MemberEpoch = &got.MemberID, got.MemberEpoch
		resp.HeartbeatIntervalMillis = int32(got.HeartbeatInterval.Milliseconds())
		if got.Assignment != nil {
			resp.Assignment = toldAssignment(got.Assignment)
		}
		return resp
	})
}

func (s *Server) consumerHeartbeat(ctx context.Context, r *request, req *kmsg.ConsumerGroupHeartbeatRequest) (consumer.HeartbeatResponse, error) {
	if err := r.deniedGroup(acl.Read, req.Group); err != nil {
		return consumer.HeartbeatResponse{}, err
	}
	for _, topic := range req.SubscribedTopicNames {
		if err := r.denied(acl.Describe, topic); err != nil {
			return consumer.HeartbeatResponse{}, err
		}
	}
	if req.Group == "" {
		return consumer.HeartbeatResponse{}, fmt.Errorf("%w: the group ID is empty", kerr.InvalidRequest)
	}
	shard, err := s.toWrite(req.Group)
	if err != nil {
		return consumer.HeartbeatResponse{}, err
	}
	hb := heartbeatRequest(r, req)
	hb.Spent = func(d time.Duration) { r.took += d }
	if s.authorizer.on() { // what a pattern matches is judged later, and again
		hb.Principal = r.principal.String()
	}
	return shard.ConsumerHeartbeat(ctx, hb)
}

func heartbeatRequest(r *request, req *kmsg.ConsumerGroupHeartbeatRequest) consumer.HeartbeatRequest {
	out := consumer.HeartbeatRequest{
		GroupID: req.Group, Version: req.Version, MemberID: req.MemberID, NewID: uuid.NewString(), MemberEpoch: req.MemberEpoch,
		InstanceID: req.InstanceID, RackID: req.RackID, RebalanceTimeout: time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		ClientID: r.clientID, Host: r.host(), Tenant: r.tenant(), Topics: req.SubscribedTopicNames, Regex: req.SubscribedTopicRegex, ServerAssignor: req.ServerAssignor,
	}
	if req.Topics == nil { // nothing is said, and not that there is nothing
		return out
	}
	out.Owned = make([]groups.TopicPartitions, 0, len(req.Topics))
	for _, t := range req.Topics {
		out.Owned = append(out.Owned, groups.TopicPartitions{Topic: t.TopicID, Partitions: t.Partitions})
	}
	return out
}

func toldAssignment(a groups.Assignment) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	out.Topics = make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, 0, len(a))
	for _, id := range slices.SortedFunc(maps.Keys(a), compareIDs) {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = id, a[id]
		out.Topics = append(out.Topics, t)
	}
	return &out
}
