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
	"kaas.dev/kaas/server/acl"
)

var consumerGroupDescribeAPI = api{key: kmsg.ConsumerGroupDescribe, min: 0, max: 1, wide: true, access: checks(right{acl.Describe, acl.Group}, right{acl.Describe, acl.Topic}), start: (*Server).consumerGroupDescribe}

// What a member of a group speaks.
const memberClassic, memberConsumer = 0, 1

func (s *Server) consumerGroupDescribe(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ConsumerGroupDescribeRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrConsumerGroupDescribeResponse()
		names := distinct(req.Groups, itself)
		resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(names))
		inParallel(len(names), func(i int) { resp.Groups[i] = s.describeConsumer(ctx, r, names[i]) })
		return resp
	})
}

func (s *Server) describeConsumer(ctx context.Context, r *request, group string) kmsg.ConsumerGroupDescribeResponseGroup {
	req := r.msg.(*kmsg.ConsumerGroupDescribeRequest)
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group = group
	if !r.room(2*elementBytes + len(group)) {
		return out
	}
	d, err := groupshard.Description{}, r.deniedGroup(acl.Describe, group)
	switch {
	case err != nil:
	case group == "":
		err = kerr.InvalidGroupID
	default:
		d, err = s.describe(ctx, group)
	}
	if err == nil && d.Consumer == nil {
		err = fmt.Errorf("%w: group %.200q is not a consumer group", kerr.GroupIDNotFound, group)
	}
	view := s.backend.View()
	if err == nil {
		err = deniedMembers(r, view, d.Consumer)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = s.groupTold(kmsg.ConsumerGroupDescribe, err)
		return out
	}
	if req.IncludeAuthorizedOperations {
		out.AuthorizedOperations = r.subject.Operations(acl.Group, group)
	}
	out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = d.State, d.Consumer.Epoch, d.Consumer.TargetEpoch, d.Consumer.Assignor
	if out.AssignorName == "" { // there was no target yet
		out.AssignorName = s.cfg.Groups.Assignors[0]
	}
	for _, id := range slices.Sorted(maps.Keys(d.Consumer.Members)) {
		if !r.room(memberBytes(view, d.Consumer.Members[id], d.Consumer.Target[id])) {
			break
		}
		out.Members = append(out.Members, describedMember(view, d.Consumer.Members[id], d.Consumer.Target[id]))
	}
	return out
}

// deniedMembers is TOPIC_AUTHORIZATION_FAILED for a group whose members have topics, or are to
// have or to give up some, that who asks may not describe.
func deniedMembers(r *request, view *projections.Cluster, g *groups.Consumer) error {
	if r.subject == nil {
		return nil
	}
	for id, m := range g.Members {
		for _, a := range []groups.Assignment{m.Assigned, m.Revoking, g.Target[id]} {
			for topic := range a {
				if t := view.TopicByID(topic); t != nil && !r.may(acl.Describe, acl.Topic, t.Name) {
					return fmt.Errorf("%w: the group has topics that the client may not describe", kerr.TopicAuthorizationFailed)
				}
			}
		}
	}
	return nil
}

// memberBytes is about what the answer has for a member.
func memberBytes(view *projections.Cluster, m *groups.ConsumerMember, target groups.Assignment) int {
	n := elementBytes + len(m.ID) + len(m.ClientID) + len(or(m.Regex, ""))
	for _, t := range m.Topics {
		n += len(t) + 2
	}
	for _, a := range []groups.Assignment{m.Assigned, m.Revoking, target} {
		for id, ps := range a {
			if t := view.TopicByID(id); t != nil {
				n += elementBytes + len(t.Name) + 4*len(ps)
			}
		}
	}
	return n
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
