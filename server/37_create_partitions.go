package server

// CreatePartitions, key 37, versions 0 to 3 (KIP-195).
//
// The count is the new total and must be an increase. An assignment names brokers for
// the new partitions alone, under the same rules as for CreateTopics. Answered when
// the new partitions can be written to.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

var createPartitionsAPI = api{key: kmsg.CreatePartitions, min: 0, max: 3, forward: true, start: (*Server).createPartitions}

func (s *Server) createPartitions(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.CreatePartitionsRequest)
	// A topic that is named twice is answered once, as Kafka does.
	times := map[string]int{}
	var topics []*kmsg.CreatePartitionsRequestTopic
	for i := range req.Topics {
		in := &req.Topics[i]
		if times[in.Topic]++; times[in.Topic] == 1 {
			topics = append(topics, in)
		}
	}
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := adminTimeout(ctx, req.TimeoutMillis)
		defer cancel()
		resp := kmsg.NewPtrCreatePartitionsResponse()
		resp.Topics = make([]kmsg.CreatePartitionsResponseTopic, len(topics))
		inParallel(len(topics), func(i int) {
			in := topics[i]
			err := fmt.Errorf("%w: the topic stands twice in the request", kerr.InvalidRequest)
			switch {
			case r.refused != nil:
				err = r.refused
			case times[in.Topic] == 1:
				err = s.growTopic(ctx, in, req.ValidateOnly)
			}
			out := kmsg.NewCreatePartitionsResponseTopic()
			out.Topic = in.Topic
			out.ErrorCode, out.ErrorMessage = s.failure(kmsg.CreatePartitions, err), message(err)
			resp.Topics[i] = out
		})
		return resp
	})
}

func (s *Server) growTopic(ctx context.Context, in *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	view := s.backend.View()
	t := view.Topic(in.Topic)
	if t == nil {
		return fmt.Errorf("%w: topic %.300q", kerr.UnknownTopicOrPartition, in.Topic)
	}
	if now := int32(len(t.Partitions)); in.Count > now && in.Assignment != nil {
		if err := checkNewAssignment(view, in.Assignment, now, in.Count); err != nil {
			return err
		}
	}
	return s.backend.CreatePartitions(ctx, t.ID, in.Count, validateOnly)
}

// checkNewAssignment judges the brokers that are named for partitions from now on.
func checkNewAssignment(view *projections.Cluster, in []kmsg.CreatePartitionsRequestTopicAssignment, now, count int32) error {
	if len(in) != int(count-now) {
		return fmt.Errorf("%w: %d partitions are assigned and %d are to be made", kerr.InvalidReplicaAssignment, len(in), count-now)
	}
	for i, a := range in {
		if len(a.Replicas) != len(in[0].Replicas) {
			return fmt.Errorf("%w: partition %d has %d replicas; all must have as many", kerr.InvalidReplicaAssignment, int(now)+i, len(a.Replicas))
		}
		if err := checkReplicas(view, now+int32(i), a.Replicas); err != nil {
			return err
		}
	}
	return nil
}
