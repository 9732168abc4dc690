package server

// OffsetForLeaderEpoch, key 23, versions 2 to 4.
//
// Where an epoch that the client read in ended, so that it sees whether what it has
// read was cut off (KIP-320). -1 and -1 where the epoch is not known.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var offsetForLeaderEpochAPI = api{key: kmsg.OffsetForLeaderEpoch, min: 2, max: 4, wide: true, access: checks(right{acl.ClusterAction, acl.Cluster}, right{acl.Describe, acl.Topic}), start: (*Server).offsetForLeaderEpoch}

func (s *Server) offsetForLeaderEpoch(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.OffsetForLeaderEpochRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, volumeWait)
		defer cancel()
		view := s.backend.View()
		fresh := s.metrics.checked(s.backend.CheckFresh(ctx))
		resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
		all := r.seesCluster(acl.ClusterAction)
		for i := range req.Topics {
			in := &req.Topics[i]
			out := kmsg.NewOffsetForLeaderEpochResponseTopic()
			out.Topic = in.Topic
			var denied error
			if !all {
				denied = r.denied(acl.Describe, in.Topic)
			}
			for j := range in.Partitions {
				if !r.room(elementBytes) {
					break
				}
				out.Partitions = append(out.Partitions, s.epochEnd(view.Topic(in.Topic), &in.Partitions[j], denied, fresh))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func (s *Server) epochEnd(t *projections.Topic, in *kmsg.OffsetForLeaderEpochRequestTopicPartition, denied, fresh error) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	out.Partition, out.LeaderEpoch, out.EndOffset = in.Partition, -1, -1
	err := func() error {
		if denied != nil {
			return denied
		}
		if t == nil {
			return kerr.UnknownTopicOrPartition
		}
		p, err := s.backend.Partition(t.ID, in.Partition)
		if err != nil {
			return err
		}
		if err := checkEpochButNone(p, in.CurrentLeaderEpoch); err != nil {
			return err
		}
		if fresh != nil {
			return fresh
		}
		if in.LeaderEpoch <= p.LeaderEpoch() {
			out.LeaderEpoch, out.EndOffset = p.EpochEnd(in.LeaderEpoch)
		}
		return nil
	}()
	out.ErrorCode = s.failure(kmsg.OffsetForLeaderEpoch, err)
	return out
}
