package server

// DeleteRecords, key 21, versions 0 to 2.
//
// Moves a partition's log start, to -1 for the high watermark. The answer is the log
// start, which is committed. Beyond the high watermark is OFFSET_OUT_OF_RANGE; a topic
// that is compacted and not deleted from refuses with POLICY_VIOLATION.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var deleteRecordsAPI = api{key: kmsg.DeleteRecords, min: 0, max: 2, access: checks(right{acl.Delete, acl.Topic}), start: (*Server).deleteRecords}

func (s *Server) deleteRecords(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DeleteRecordsRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		// With one copy Kafka is done at once, whatever the timeout.
		ctx, cancel := adminTimeout(ctx, max(req.TimeoutMillis, int32(minProduceWait.Milliseconds())))
		defer cancel()
		view := s.backend.View()
		fresh := s.metrics.checked(s.backend.CheckFresh(ctx))
		resp := kmsg.NewPtrDeleteRecordsResponse()
		resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
		var g errgroup.Group
		g.SetLimit(atOnce)
		for i := range req.Topics {
			in, out := &req.Topics[i], &resp.Topics[i]
			out.Default()
			out.Topic = in.Topic
			out.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(in.Partitions))
			denied := r.denied(acl.Delete, in.Topic)
			for j := range in.Partitions {
				g.Go(func() error {
					out.Partitions[j] = s.deleteBefore(ctx, view.Topic(in.Topic), &in.Partitions[j], denied, fresh)
					return nil
				})
			}
		}
		_ = g.Wait() // each partition has its own error
		return resp, nil
	})
}

func (s *Server) deleteBefore(ctx context.Context, t *projections.Topic, in *kmsg.DeleteRecordsRequestTopicPartition, denied, fresh error) kmsg.DeleteRecordsResponseTopicPartition {
	out := kmsg.NewDeleteRecordsResponseTopicPartition()
	out.Partition, out.LowWatermark = in.Partition, -1
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
		if fresh != nil {
			return fresh
		}
		low, err := p.DeleteRecords(ctx, in.Offset)
		if err == nil {
			out.LowWatermark = low
		}
		return err
	}()
	out.ErrorCode = s.failure(kmsg.DeleteRecords, err)
	return out
}
