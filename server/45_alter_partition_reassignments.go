package server

// AlterPartitionReassignments, key 45, versions 0 and 1 (KIP-455).
//
// There is one copy, so an assignment moves the leader to the first broker that it names,
// and the others are checked alone. Where that broker leads already, nothing happens. A
// null assignment cancels: a move is published when it is answered, and is not taken back,
// so that there is NO_REASSIGNMENT_IN_PROGRESS. From version 1 a client may forbid that the number of
// replicas changes; it is always one.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var alterPartitionReassignmentsAPI = api{key: kmsg.AlterPartitionAssignments, min: 0, max: 1, forward: true, access: onCluster(acl.Alter), start: (*Server).alterPartitionReassignments}

func (s *Server) alterPartitionReassignments(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AlterPartitionAssignmentsRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := adminTimeout(ctx, req.TimeoutMillis)
		defer cancel()
		errs := s.moveAll(ctx, s.reassignments(r, req))
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
		resp.ErrorCode, resp.ErrorMessage = s.failure(kmsg.AlterPartitionAssignments, r.refused), message(r.refused)
		for i := range req.Topics {
			t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
			t.Topic = req.Topics[i].Topic
			for _, p := range req.Topics[i].Partitions {
				o := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
				o.Partition = p.Partition
				o.ErrorCode, o.ErrorMessage = s.failure(kmsg.AlterPartitionAssignments, errs[0]), r.message(errs[0])
				t.Partitions, errs = append(t.Partitions, o), errs[1:]
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp
	})
}

// reassignments judges what is asked for, partition by partition.
func (s *Server) reassignments(r *request, req *kmsg.AlterPartitionAssignmentsRequest) (out []move) {
	view := s.backend.View()
	type place struct {
		topic string
		index int32
	}
	seen := map[place]bool{}
	for i := range req.Topics {
		in, t := &req.Topics[i], view.Topic(req.Topics[i].Topic)
		for j := range in.Partitions {
			p := &in.Partitions[j]
			m, at := move{err: r.refused}, place{in.Topic, p.Partition}
			switch {
			case m.err != nil:
			case seen[at]:
				m.err = fmt.Errorf("%w: the partition stands twice in the request", kerr.InvalidRequest)
			default:
				m = reassignment(view, req, &askedPartition{i, t, p.Partition}, p.Replicas)
			}
			seen[at] = true
			out = append(out, m)
		}
	}
	return out
}

func reassignment(view *projections.Cluster, req *kmsg.AlterPartitionAssignmentsRequest, a *askedPartition, replicas []int32) (m move) {
	switch {
	case !a.known():
		m.err = fmt.Errorf("%w: partition %d", kerr.UnknownTopicOrPartition, a.index)
	case replicas == nil:
		m.err = kerr.NoReassignmentInProgress
	default:
		m.err = checkReplicas(view, a.index, replicas)
	}
	if m.err == nil && !req.AllowReplicationFactorChange && len(replicas) != 1 {
		m.err = fmt.Errorf("%w: it is always 1 and was not to change", kerr.InvalidReplicationFactor)
	}
	if m.err == nil {
		from := a.topic.Partitions[a.index].Leader
		m.LeaderMove = coordinator.LeaderMove{TopicID: a.topic.ID, Partition: a.index, From: from, To: replicas[0]}
		m.done = from == replicas[0]
	}
	return m
}
