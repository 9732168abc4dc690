package server

// DescribeProducers, key 61, version 0 (KIP-664).
//
// What the leaders know of producers, idempotent and transactional: epoch, last sequence,
// when they last appended, and where their open transaction begins, -1 if none is open.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var describeProducersAPI = api{key: kmsg.DescribeProducers, min: 0, max: 0, wide: true, access: checks(right{acl.Read, acl.Topic}), start: (*Server).describeProducers}

func (s *Server) describeProducers(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeProducersRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, volumeWait)
		defer cancel()
		view := s.backend.View()
		fresh := s.metrics.checked(s.backend.Fresh(ctx, fetchMaxAge))
		resp := kmsg.NewPtrDescribeProducersResponse()
		told := map[projections.TopicID]map[int32]bool{} // what stands twice is answered once
		for i := range req.Topics {
			in := &req.Topics[i]
			out := kmsg.NewDescribeProducersResponseTopic()
			out.Topic = in.Topic
			denied := orElse(projections.ValidateTopicName(in.Topic), func() error { return r.denied(acl.Read, in.Topic) })
			t := view.Topic(in.Topic)
			for _, index := range distinct(in.Partitions, itself) {
				if t != nil {
					if told[t.ID] == nil {
						told[t.ID] = map[int32]bool{}
					}
					if told[t.ID][index] {
						continue
					}
					told[t.ID][index] = true
				}
				out.Partitions = append(out.Partitions, s.describeProducersOf(r, t, index, denied, fresh))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp, nil
	})
}

func (s *Server) describeProducersOf(r *request, t *projections.Topic, index int32, denied, fresh error) kmsg.DescribeProducersResponseTopicPartition {
	out := kmsg.NewDescribeProducersResponseTopicPartition()
	out.Partition = index
	p, err := (*partition.Partition)(nil), denied
	switch {
	case err != nil:
	case t == nil:
		err = kerr.UnknownTopicOrPartition
	default:
		p, err = s.backend.Partition(t.ID, index)
	}
	if err == nil {
		err = fresh
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = s.failure(kmsg.DescribeProducers, err), message(err)
		return out
	}
	producers := p.Producers()
	if !r.room(elementBytes * len(producers)) {
		return out
	}
	for _, x := range producers {
		o := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		o.ProducerID, o.ProducerEpoch, o.LastSequence, o.LastTimestamp = x.ID, int32(x.Epoch), x.LastSequence, x.LastTime
		o.CoordinatorEpoch, o.CurrentTxnStartOffset = x.CoordinatorEpoch, x.TxnStart
		out.ActiveProducers = append(out.ActiveProducers, o)
	}
	return out
}
