package server

// ListPartitionReassignments, key 46, version 0 (KIP-455).
//
// A handover under way is a reassignment: its new leader is being added and its old one
// removed. A null list asks for all.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/server/acl"
)

var listPartitionReassignmentsAPI = api{key: kmsg.ListPartitionReassignments, min: 0, max: 0, forward: true, access: onCluster(acl.Describe), start: (*Server).listPartitionReassignments}

func (s *Server) listPartitionReassignments(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.ListPartitionReassignmentsRequest)
	return inTurn(r, func(context.Context) kmsg.Response {
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		if r.refused != nil {
			resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.ListPartitionReassignments, r.refused), message(r.refused)
			resp.Topics = askedReassignments(req)
			return resp
		}
		view, at := s.backend.View(), map[string]int{}
		for _, m := range s.backend.Moving() {
			t := view.TopicByID(m.TopicID)
			if t == nil || !listsMove(req, t.Name, m.Partition) {
				continue
			}
			i, ok := at[t.Name]
			if !ok {
				i = len(resp.Topics)
				at[t.Name] = i
				out := kmsg.NewListPartitionReassignmentsResponseTopic()
				out.Topic = t.Name
				resp.Topics = append(resp.Topics, out)
			}
			resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, movingPartition(m))
		}
		return resp
	})
}

// askedReassignments are what was asked for, as Kafka tells it beside an error.
func askedReassignments(req *kmsg.ListPartitionReassignmentsRequest) (out []kmsg.ListPartitionReassignmentsResponseTopic) {
	for _, in := range req.Topics {
		t := kmsg.NewListPartitionReassignmentsResponseTopic()
		t.Topic = in.Topic
		for _, p := range in.Partitions {
			o := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			o.Partition = p
			t.Partitions = append(t.Partitions, o)
		}
		out = append(out, t)
	}
	return out
}

func movingPartition(m coordinator.LeaderMove) kmsg.ListPartitionReassignmentsResponseTopicPartition {
	out := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
	out.Partition = m.Partition
	out.Replicas, out.AddingReplicas, out.RemovingReplicas = []int32{m.To, m.From}, []int32{m.To}, []int32{m.From}
	return out
}

func listsMove(req *kmsg.ListPartitionReassignmentsRequest, topic string, index int32) bool {
	return req.Topics == nil || slices.ContainsFunc(req.Topics, func(t kmsg.ListPartitionReassignmentsRequestTopic) bool {
		return t.Topic == topic && slices.Contains(t.Partitions, index)
	})
}
