package server

// ConsumerGroupDescribe, key 69, versions 0 and 1 (KIP-848).
//
// Groups of the next-generation protocol, with what each member has and what it is to
// have; topics that are deleted are left out. A group that is not there, or is of another
// protocol, is GROUP_ID_NOT_FOUND: clients then ask DescribeGroups. Version 1 tells which
// protocol a member itself speaks.

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

var consumerGroupDescribeAPI = api{key: kmsg.ConsumerGroupDescribe, min: 0, max: 1, start: (*Server).consumerGroupDescribe}

// What a member of a group speaks.
const memberClassic, memberConsumer = 0, 1

func (s *Server) consumerGroupDescribe(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ConsumerGroupDescribeRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrConsumerGroupDescribeResponse()
		resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(req.Groups))
		inParallel(len(req.Groups), func(i int) { resp.Groups[i] = s.describeConsumer(ctx, req, req.Groups[i]) })
		return resp
	})
}

func (s *Server) describeConsumer(ctx context.Context, req *kmsg.ConsumerGroupDescribeRequest, group string) kmsg.ConsumerGroupDescribeResponseGroup {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group = group
	d, err := groupshard.Description{}, error(kerr.InvalidGroupID)
	if group != "" {
		d, err = s.describe(ctx, group)
	}
	if err == nil && d.Consumer == nil {
		err = fmt.Errorf("%w: group %.200q is not a consumer group", kerr.GroupIDNotFound, group)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = s.groupFailure(kmsg.ConsumerGroupDescribe, err), message(err)
		return out
	}
	if req.IncludeAuthorizedOperations {
		out.AuthorizedOperations = allGroupOps
	}
	out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = d.State, d.Consumer.Epoch, d.Consumer.TargetEpoch, d.Consumer.Assignor
	if out.AssignorName == "" { // there was no target yet
		out.AssignorName = s.cfg.Groups.Assignors[0]
	}
	view := s.backend.View()
	for _, id := range slices.Sorted(maps.Keys(d.Consumer.Members)) {
		out.Members = append(out.Members, describedMember(view, d.Consumer.Members[id], d.Consumer.Target[id]))
	}
	return out
}

func describedMember(view *projections.Cluster, m *groups.ConsumerMember, target groups.Assignment) kmsg.ConsumerGroupDescribeResponseGroupMember {
	o := kmsg.NewConsumerGroupDescribeResponseGroupMember()
	o.MemberID, o.InstanceID, o.RackID, o.MemberEpoch = m.ID, m.InstanceID, m.RackID, m.Epoch
	regex := or(m.Regex, "") // none is told as empty, as by Kafka
	o.ClientID, o.ClientHost, o.SubscribedTopics, o.SubscribedTopicRegex = m.ClientID, m.Host, m.Topics, &regex
	o.Assignment.TopicPartitions, o.TargetAssignment.TopicPartitions = describedAssignment(view, held(m)), describedAssignment(view, target)
	o.MemberType = memberConsumer
	if m.Classic != nil {
		o.MemberType = memberClassic
	}
	return o
}

// held is what a member has, with what it is to give up and may still have.
func held(m *groups.ConsumerMember) groups.Assignment {
	out := maps.Clone(m.Assigned)
	for id, ps := range m.Revoking {
		if out == nil {
			out = groups.Assignment{}
		}
		out[id] = slices.Sorted(slices.Values(slices.Concat(out[id], ps)))
	}
	return out
}

func describedAssignment(view *projections.Cluster, a groups.Assignment) (out []kmsg.AssignmentTopicPartition) {
	for _, t := range sortedTopics(view, a) {
		o := kmsg.NewAssignmentTopicPartition()
		o.TopicID, o.Topic, o.Partitions = t.ID, t.Name, a[t.ID]
		out = append(out, o)
	}
	return out
}
