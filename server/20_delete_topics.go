package server

// DeleteTopics, key 20, versions 1 to 6; by ID from version 6.
//
// A topic is deleted by its ID, also where the client gave a name: a topic made
// anew under that name meanwhile is another one. A name only looks the ID up and
// never becomes part of a path. What stands twice in a request, be it once by its name and
// once by its ID, is answered once, with INVALID_REQUEST, and is not deleted.

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var deleteTopicsAPI = api{key: kmsg.DeleteTopics, min: 1, max: 6, forward: true, access: checks(right{acl.Delete, acl.Cluster}, right{acl.Describe, acl.Topic}, right{acl.Delete, acl.Topic}), start: (*Server).deleteTopics}

func (s *Server) deleteTopics(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DeleteTopicsRequest)
	asked := topicsToDelete(req)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		topics, twice := once(s.backend.View(), r, asked)
		ctx, cancel := adminTimeout(ctx, req.TimeoutMillis)
		defer cancel()
		resp := kmsg.NewPtrDeleteTopicsResponse()
		resp.Topics = make([]kmsg.DeleteTopicsResponseTopic, len(topics))
		ts, errs := make([]*projections.Topic, len(topics)), make([]error, len(topics))
		for i := range topics { // in order, for that is how a quota is used up
			ts[i], errs[i] = s.judgeDeletion(r, &topics[i], twice[i])
		}
		inParallel(len(topics), func(i int) { resp.Topics[i] = s.deleteOne(ctx, r, &topics[i], ts[i], errs[i]) })
		return resp
	})
}

// topicsToDelete are a request's topics, whatever the version that names them.
func topicsToDelete(req *kmsg.DeleteTopicsRequest) []kmsg.DeleteTopicsRequestTopic {
	topics := req.Topics
	for _, name := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		topics = append(topics, t)
	}
	return topics
}

// judgeDeletion is what is to be deleted, if it may, and if it is there.
func (s *Server) judgeDeletion(r *request, in *kmsg.DeleteTopicsRequestTopic, twice bool) (*projections.Topic, error) {
	if r.refused != nil {
		return nil, r.refused
	}
	if twice {
		return nil, fmt.Errorf("%w: the topic stands twice in the request", kerr.InvalidRequest)
	}
	t, err := s.topicToDelete(r, in)
	if err == nil {
		err = s.mutate(r, len(t.Partitions), 5)
	}
	return t, err
}

func (s *Server) deleteOne(ctx context.Context, r *request, in *kmsg.DeleteTopicsRequestTopic, t *projections.Topic, err error) kmsg.DeleteTopicsResponseTopic {
	out := kmsg.NewDeleteTopicsResponseTopic()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	if t != nil {
		out.Topic, out.TopicID = &t.Name, t.ID
	}
	if err == nil {
		err = s.backend.DeleteTopic(ctx, t.ID)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = s.failure(kmsg.DeleteTopics, err), r.message(err)
		return out
	}
	s.metrics.forget(t.Name)
	return out
}

// once are the topics of a request, each once, and which of them stood there twice. What
// names nothing is left as it is: each of those has its own error. Which ID a name has is not
// told to whom may not delete it.
func once(view *projections.Cluster, r *request, asked []kmsg.DeleteTopicsRequestTopic) (topics []kmsg.DeleteTopicsRequestTopic, twice []bool) {
	type meant struct {
		name string
		id   [16]byte
	}
	at := map[meant]int{}
	for _, in := range asked {
		m := meant{or(in.Topic, ""), in.TopicID}
		if t := view.Topic(m.name); t != nil && m.id == [16]byte{} && r.deletes(t.Name) {
			m = meant{id: t.ID}
		}
		i, ok := at[m]
		switch {
		case !ok || m == meant{}:
			at[m] = len(topics)
			topics, twice = append(topics, in), append(twice, false)
		default:
			twice[i] = true
			if in.Topic != nil {
				topics[i].Topic = in.Topic
			}
		}
	}
	return topics, twice
}

// topicToDelete is what is to be deleted. in is the answer's, too: of a topic by ID that may be
// described it learns the name.
func (s *Server) topicToDelete(r *request, in *kmsg.DeleteTopicsRequestTopic) (t *projections.Topic, err error) {
	view, byID := s.backend.View(), in.TopicID != [16]byte{}
	switch {
	case byID == (in.Topic != nil):
		return nil, kerr.InvalidRequest
	case byID:
		t, err = view.TopicByID(in.TopicID), kerr.UnknownTopicID
	default:
		t, err = view.Topic(*in.Topic), kerr.UnknownTopicOrPartition
	}
	if name := nameOr(t, or(in.Topic, "")); t != nil || !byID {
		switch all := r.seesCluster(acl.Delete); {
		case !all && !r.may(acl.Describe, acl.Topic, name):
			return nil, kerr.TopicAuthorizationFailed
		case t != nil && !all && !r.may(acl.Delete, acl.Topic, name):
			in.Topic = &t.Name
			return nil, kerr.TopicAuthorizationFailed
		}
	}
	if t != nil {
		return t, nil
	}
	return nil, err
}

// deletes reports whether who asks may delete a topic, without a word in the log.
func (r *request) deletes(topic string) bool {
	return r.subject.Allows(acl.Delete, acl.Cluster, acl.ClusterName) || r.subject.Allows(acl.Delete, acl.Topic, topic)
}
