package server

// CreatePartitions, key 37, versions 0 to 3 (KIP-195).
//
// The count is the new total and must be an increase. An assignment names brokers for
// the new partitions alone, under the same rules as for CreateTopics. A request that would
// make more than 10,000 partitions makes none. Answered when the new ones can be written to.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var createPartitionsAPI = api{key: kmsg.CreatePartitions, min: 0, max: 3, forward: true, access: checks(right{acl.Alter, acl.Topic}), start: (*Server).createPartitions}

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
		ts, errs := make([]*projections.Topic, len(topics)), make([]error, len(topics))
		excess := s.tooManyAdded(r, topics, times)
		for i, in := range topics { // in order, for that is how a quota is used up
			if errs[i] = excess; excess == nil {
				ts[i], errs[i] = s.judgeGrowth(r, in, times[in.Topic] > 1)
			}
		}
		inParallel(len(topics), func(i int) {
			out, err := kmsg.NewCreatePartitionsResponseTopic(), errs[i]
			if err == nil {
				err = s.backend.CreatePartitions(ctx, ts[i].ID, topics[i].Count, req.ValidateOnly)
			}
			out.Topic = topics[i].Topic
			out.ErrorCode, out.ErrorMessage = s.failure(kmsg.CreatePartitions, err), r.message(err)
			resp.Topics[i] = out
		})
		return resp
	})
}

// tooManyAdded is tooManyAsked for what topics are to have more than now.
func (s *Server) tooManyAdded(r *request, topics []*kmsg.CreatePartitionsRequestTopic, times map[string]int) error {
	if r.refused != nil {
		return nil
	}
	view, sum := s.backend.View(), int64(0)
	for _, in := range topics {
		t := view.Topic(in.Topic)
		if t != nil && times[in.Topic] == 1 && r.subject.Allows(acl.Alter, acl.Topic, in.Topic) {
			sum += max(0, int64(in.Count)-int64(len(t.Partitions)))
		}
	}
	return tooMany(sum)
}

// judgeGrowth is which topic is to grow, if it may. Whether it is growth is judged later.
func (s *Server) judgeGrowth(r *request, in *kmsg.CreatePartitionsRequestTopic, twice bool) (*projections.Topic, error) {
	if r.refused != nil {
		return nil, r.refused
	}
	if twice {
		return nil, fmt.Errorf("%w: the topic stands twice in the request", kerr.InvalidRequest)
	}
	if err := r.denied(acl.Alter, in.Topic); err != nil {
		return nil, err
	}
	view := s.backend.View()
	t := view.Topic(in.Topic)
	if t == nil {
		return nil, fmt.Errorf("%w: topic %.300q", kerr.UnknownTopicOrPartition, in.Topic)
	}
	have := int32(len(t.Partitions))
	if in.Count <= have {
		return t, nil
	}
	if in.Assignment != nil {
		if err := checkNewAssignment(view, in.Assignment, have, in.Count); err != nil {
			return nil, err
		}
	}
	return t, s.mutate(r, int(in.Count-have), 3)
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
