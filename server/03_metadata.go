package server

// Metadata, key 3, versions 0 to 13.
//
// All topics for a null list (an empty one in version 0), else those named; by ID
// from version 12. A missing topic is made when both the broker's
// auto.create.topics.enable and the request (from version 4) allow it, by the controller,
// and is answered when it can be written to, or as UNKNOWN_TOPIC_OR_PARTITION, which
// clients try again, if that takes too long. Brokers are shown with their address of the
// listener that was asked. A partition whose leader is fenced, or that the volume keeps
// from being served, has no leader, and its replica is offline. Topic IDs, from version
// 10, never change. What who asks may not describe is left out of a list of all, and
// TOPIC_AUTHORIZATION_FAILED where it is named, whether or not it is there.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var metadataAPI = api{key: kmsg.Metadata, min: 0, max: 13, wide: true, access: checks(right{acl.Describe, acl.Topic}, right{acl.Create, acl.Cluster}, right{acl.Create, acl.Topic}, right{acl.Describe, acl.Cluster}), start: (*Server).metadata}

// autoCreateWait bounds how long an answer waits for topics that it makes.
const autoCreateWait = 5 * time.Second

// wanted is one topic of a request that names topics, once each.
type wanted struct {
	name *string
	id   projections.TopicID
	err  error
	// denied: who asks is told no more of it than he has said, not even whether it is there.
	denied bool
}

func (s *Server) metadata(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.MetadataRequest)
	if idsTooEarly(req) {
		return now(s.metadataRefused(req))
	}
	want, all := wantedTopics(req)
	s.authorizeWanted(r, want)
	missing := s.toCreate(req, want)
	if len(missing) == 0 {
		return now(s.metadataAnswer(r, want, all))
	}
	return later(func(ctx context.Context) (kmsg.Response, error) {
		s.autoCreate(ctx, r, missing)
		return s.metadataAnswer(r, want, all), nil
	})
}

func wantedTopics(req *kmsg.MetadataRequest) (want []wanted, all bool) {
	if req.Topics == nil || req.Version == 0 && len(req.Topics) == 0 {
		return nil, true
	}
	type id struct {
		name string
		id   projections.TopicID
	}
	seen := make(map[id]bool, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		w := wanted{name: t.Topic, id: t.TopicID}
		key := id{id: w.id}
		if w.name != nil {
			key.name = *w.name
		}
		switch byID := !w.id.IsZero(); {
		case seen[key]:
			continue
		case !byID && w.name == nil:
			w.err = kerr.InvalidRequest
		case byID:
			w.name = nil // the ID decides
		default:
			w.err = projections.ValidateTopicName(*w.name)
		}
		seen[key] = true
		want = append(want, w)
	}
	return want, false
}

// authorizeWanted denies what who asks may not describe or, where it would be made, not create.
func (s *Server) authorizeWanted(r *request, want []wanted) {
	if r.subject == nil {
		return
	}
	view, req := s.backend.View(), r.msg.(*kmsg.MetadataRequest)
	create := s.createsTopics(req)
	for i := range want {
		w := &want[i]
		name := or(w.name, "")
		if w.name == nil {
			t := view.TopicByID(w.id)
			if t == nil {
				continue // which is no secret: nobody guesses IDs
			}
			name = t.Name
		}
		w.denied = !r.may(acl.Describe, acl.Topic, name) ||
			create && w.name != nil && view.Topic(name) == nil && !r.seesCluster(acl.Create) && !r.may(acl.Create, acl.Topic, name)
		if w.denied {
			w.err = kerr.TopicAuthorizationFailed
		}
	}
}

// createsTopics reports whether the answer makes the topics that are missing.
func (s *Server) createsTopics(req *kmsg.MetadataRequest) bool {
	return s.cfg.AutoCreateTopics && (req.Version < 4 || req.AllowAutoTopicCreation)
}

// toCreate returns the topics that the answer must make first.
func (s *Server) toCreate(req *kmsg.MetadataRequest, want []wanted) (missing []*wanted) {
	if !s.createsTopics(req) {
		return nil
	}
	view := s.backend.View()
	for i := range want {
		if w := &want[i]; w.err == nil && w.name != nil && view.Topic(*w.name) == nil {
			missing = append(missing, w)
		}
	}
	return missing
}

func (s *Server) autoCreate(ctx context.Context, r *request, missing []*wanted) {
	ctx, cancel := context.WithTimeout(ctx, autoCreateWait)
	defer cancel()
	if tooMany(int64(len(missing))*(int64(s.cfg.NumPartitions)+1)) != nil {
		for _, w := range missing {
			w.err = kerr.UnknownTopicOrPartition // as in Kafka, which makes none of them
		}
		return
	}
	if !s.backend.IsController() {
		s.haveCreated(ctx, r, missing)
		return
	}
	inParallel(len(missing), func(i int) {
		w := missing[i]
		spec := coordinator.TopicSpec{Name: *w.name, Partitions: s.cfg.NumPartitions}
		if _, ok := s.quota.Mutate(s.quotas(), r.client(), int(spec.Partitions), true); !ok {
			w.err = kerr.UnknownTopicOrPartition
			return
		}
		_, err := s.createTopic(ctx, spec, false)
		switch {
		case err == nil, errors.Is(err, kerr.TopicAlreadyExists):
		case ctx.Err() != nil:
			w.err = kerr.UnknownTopicOrPartition // under way: the client asks again
		default:
			w.err = err
		}
	})
}

// haveCreated has the controller make the topics.
func (s *Server) haveCreated(ctx context.Context, r *request, missing []*wanted) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(autoCreateWait.Milliseconds())
	req.Version = req.MaxVersion()
	for _, w := range missing {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = *w.name, s.cfg.NumPartitions, -1
		req.Topics = append(req.Topics, t)
	}
	codes := map[string]int16{}
	resp, err := s.askController(ctx, r, req)
	if created, ok := resp.(*kmsg.CreateTopicsResponse); ok && err == nil {
		for i := range created.Topics {
			codes[created.Topics[i].Topic] = created.Topics[i].ErrorCode
		}
	}
	for _, w := range missing {
		switch code, ok := codes[*w.name]; {
		case !ok, code == kerr.RequestTimedOut.Code, code == kerr.NotController.Code, code == kerr.ThrottlingQuotaExceeded.Code, code == kerr.PolicyViolation.Code:
			w.err = kerr.UnknownTopicOrPartition // the client asks again
		case code != kerr.TopicAlreadyExists.Code:
			w.err = kerr.ErrorForCode(code)
		}
	}
}

func (s *Server) metadataAnswer(r *request, want []wanted, all bool) kmsg.Response {
	req := r.msg.(*kmsg.MetadataRequest)
	view := s.backend.View()
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = req.Version
	resp.ClusterID = &s.clusterID
	resp.ControllerID = s.controllerFor(r.conn, view)
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = r.clusterOperations()
	}
	for _, n := range s.nodes(view, r.conn, false) {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = n.id, n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, b)
	}
	resp.Topics = []kmsg.MetadataResponseTopic{}
	if all {
		for _, t := range view.Topics() {
			if r.sees(acl.Describe, acl.Topic, t.Name) {
				resp.Topics = append(resp.Topics, s.metadataTopic(r, view, t))
			}
		}
	}
	told := map[projections.TopicID]bool{}
	for i := range want {
		t := s.metadataWanted(r, view, &want[i])
		if t.ErrorCode == 0 && told[t.TopicID] {
			continue // by its name and by its ID
		}
		told[t.TopicID] = true
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// topicBytes is about what an answer has for a topic and its partitions.
func topicBytes(t *projections.Topic) int { return len(t.Name) + elementBytes*(1+len(t.Partitions)) }

// idsTooEarly reports a request that names a topic by ID in a version that has the field and
// no use for it.
func idsTooEarly(req *kmsg.MetadataRequest) bool {
	return (req.Version == 10 || req.Version == 11) && slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool {
		return t.Topic == nil || t.TopicID != [16]byte{}
	})
}

// metadataRefused answers nothing of what a request asks.
func (s *Server) metadataRefused(req *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = req.Version
	for i := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = new(or(req.Topics[i].Topic, "")), req.Topics[i].TopicID, s.failure(kmsg.Metadata, kerr.InvalidRequest)
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (s *Server) metadataWanted(r *request, view *projections.Cluster, w *wanted) kmsg.MetadataResponseTopic {
	var t *projections.Topic
	err := w.err
	if err == nil && w.name != nil {
		if t, err = view.Topic(*w.name), kerr.UnknownTopicOrPartition; t != nil {
			err = nil
		}
	} else if err == nil {
		if t, err = view.TopicByID(w.id), kerr.UnknownTopicID; t != nil {
			err = nil
		}
	}
	if t != nil {
		return s.metadataTopic(r, view, t)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = w.name, w.id
	out.ErrorCode = s.failure(kmsg.Metadata, err)
	if r.msg.(*kmsg.MetadataRequest).IncludeTopicAuthorizedOperations && w.name != nil && !w.denied {
		out.AuthorizedOperations = r.subject.Operations(acl.Topic, *w.name)
	}
	return out
}

func (s *Server) metadataTopic(r *request, view *projections.Cluster, t *projections.Topic) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = &t.Name, t.ID
	if r.msg.(*kmsg.MetadataRequest).IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = r.subject.Operations(acl.Topic, t.Name)
	}
	if !r.room(topicBytes(t)) {
		return out
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		o := &out.Partitions[i]
		o.Default()
		p := s.shown(r.conn, view, t, i)
		o.Partition, o.Leader, o.LeaderEpoch, o.ErrorCode = int32(i), p.leader, p.epoch, codeOf(p.err)
		o.Replicas, o.ISR, o.OfflineReplicas = p.replicas, p.isr, p.offline
		if r.version < 6 && errors.Is(p.err, kerr.ListenerNotFound) {
			o.ErrorCode = kerr.LeaderNotAvailable.Code
		}
	}
	return out
}
