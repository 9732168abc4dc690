package server

// OffsetDelete, key 47, version 0 (KIP-496).
//
// Offsets of topics that no member of the group subscribes to
// (GROUP_SUBSCRIBED_TO_TOPIC). A partition that is not there is told for itself, as is one
// that is subscribed to; what is wrong with the group (GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP
// where its members are no consumers) is told for all.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
)

var offsetDeleteAPI = api{key: kmsg.OffsetDelete, min: 0, max: 0, access: checks(right{acl.Delete, acl.Group}, right{acl.Read, acl.Topic}), start: (*Server).offsetDelete}

func (s *Server) offsetDelete(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.OffsetDeleteRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrOffsetDeleteResponse()
		if err := r.deniedGroup(acl.Delete, req.Group); err != nil {
			resp.ErrorCode = s.groupFailure(kmsg.OffsetDelete, err)
			return resp
		}
		topics, waiting := s.offsetsToDelete(r, resp)
		shard, err := s.shardOf(req.Group)
		var errs []error
		if err == nil {
			errs, err = shard.DeleteOffsets(ctx, req.Group, topics)
		}
		if err != nil {
			resp.Topics = nil
			resp.ErrorCode = s.groupFailure(kmsg.OffsetDelete, err)
			return resp
		}
		for i, p := range waiting {
			p.ErrorCode = s.groupFailure(kmsg.OffsetDelete, errs[i])
		}
		return resp
	})
}

// offsetsToDelete lays out the answer and returns what there may be offsets of, with the
// places for what becomes of each partition.
func (s *Server) offsetsToDelete(r *request, resp *kmsg.OffsetDeleteResponse) (topics []groups.TopicPartitions, waiting []*kmsg.OffsetDeleteResponseTopicPartition) {
	view, req := s.backend.View(), r.msg.(*kmsg.OffsetDeleteRequest)
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		in, out, t := &req.Topics[i], &resp.Topics[i], view.Topic(req.Topics[i].Topic)
		out.Topic = in.Topic
		out.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(in.Partitions))
		var there []int32
		denied := r.denied(acl.Read, in.Topic)
		for j, p := range in.Partitions {
			o := &out.Partitions[j]
			o.Partition = p.Partition
			err := denied
			if err == nil && (t == nil || !hasPartition(t, p.Partition)) {
				err = kerr.UnknownTopicOrPartition
			}
			if err != nil {
				o.ErrorCode = s.groupFailure(kmsg.OffsetDelete, err)
				continue
			}
			there, waiting = append(there, p.Partition), append(waiting, o)
		}
		if len(there) > 0 {
			topics = append(topics, groups.TopicPartitions{Topic: t.ID, Partitions: there})
		}
	}
	return topics, waiting
}
