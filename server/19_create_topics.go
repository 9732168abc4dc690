package server

// CreateTopics, key 19, versions 2 to 7.
//
// Answered when the topic's partitions can be written to. Any replication factor
// from 1 up is taken and reported as 1: the volume is the redundancy. An assignment
// must name known brokers and partitions from 0 without a gap; which broker leads is
// still the controller's decision. A topic that stands twice is answered once, and of a
// configuration that does the last counts. A request that would make more than 10,000 partitions,
// topics and their configurations counted with them, makes none. From version 5 the answer shows the topic's
// configuration, if who asks may see it, from version 7 its ID.

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var createTopicsAPI = api{key: kmsg.CreateTopics, min: 2, max: 7, forward: true, access: checks(right{acl.Create, acl.Cluster}, right{acl.Create, acl.Topic}, right{acl.DescribeConfigs, acl.Topic}), start: (*Server).createTopics}

func (s *Server) createTopics(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.CreateTopicsRequest)
	return inTurn(r, func(ctx context.Context) kmsg.Response {
		ctx, cancel := adminTimeout(ctx, req.TimeoutMillis)
		defer cancel()
		times := map[string]int{}
		var topics []*kmsg.CreateTopicsRequestTopic
		for i := range req.Topics {
			in := &req.Topics[i]
			if times[in.Topic]++; times[in.Topic] == 1 {
				topics = append(topics, in)
			}
		}
		r.telling = &telling{budget: s.told, conn: r.conn}
		resp := kmsg.NewPtrCreateTopicsResponse()
		resp.Topics = make([]kmsg.CreateTopicsResponseTopic, len(topics))
		specs, errs := make([]coordinator.TopicSpec, len(topics)), make([]error, len(topics))
		excess := s.tooManyAsked(r, topics, times)
		for i, in := range topics { // in order, for that is how a quota is used up
			if specs[i].Name = in.Topic; excess == nil {
				specs[i], errs[i] = s.judgeTopic(r, in, times[in.Topic] > 1)
			}
		}
		if excess = cmp.Or(excess, tooManyMade(specs, errs)); excess != nil {
			errs = slices.Repeat([]error{excess}, len(topics))
		}
		inParallel(len(topics), func(i int) { resp.Topics[i] = s.createOne(ctx, r, specs[i], errs[i]) })
		return resp
	})
}

// adminTimeout is how long the client wants to wait for an admin change. What is
// not done by then goes on and is answered REQUEST_TIMED_OUT.
func adminTimeout(ctx context.Context, ms int32) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(max(ms, 0))*time.Millisecond)
}

// mostMade bounds the partitions that one request makes, as in Kafka: all other changes of the
// cluster wait for it.
const mostMade = 10_000

func tooMany(partitions int64) error {
	if partitions <= mostMade {
		return nil
	}
	return fmt.Errorf("%w: %d partitions, with their topics and what is configured of them, are more than the %d that a request makes at most", kerr.PolicyViolation, partitions, mostMade)
}

// tooManyAsked is why nothing of a request is done that asks for too many partitions, of topics
// that who asks may make, be they right or wrong.
func (s *Server) tooManyAsked(r *request, topics []*kmsg.CreateTopicsRequestTopic, times map[string]int) error {
	if r.refused != nil {
		return nil
	}
	sum := int64(0)
	for _, in := range topics {
		n := int64(len(in.ReplicaAssignment))
		if n == 0 {
			n = int64(in.NumPartitions)
		}
		if n == -1 {
			n = int64(s.cfg.NumPartitions)
		}
		if n > 0 && times[in.Topic] == 1 && r.creates(in.Topic) {
			sum += n
		}
	}
	return tooMany(sum)
}

// tooManyMade is the same of what would be made. Kafka's controller writes a record for each
// topic and each configuration, too, and so many records at once.
func tooManyMade(specs []coordinator.TopicSpec, errs []error) error {
	sum := int64(0)
	for i := range specs {
		if errs[i] == nil {
			sum += int64(specs[i].Partitions) + 1 + int64(len(specs[i].Configs))
		}
	}
	return tooMany(sum)
}

// creates reports whether who asks may make a topic, without a word in the log.
func (r *request) creates(topic string) bool {
	return r.subject.Allows(acl.Create, acl.Cluster, acl.ClusterName) || r.subject.Allows(acl.Create, acl.Topic, topic)
}

// judgeTopic is what is to be made, if it may.
func (s *Server) judgeTopic(r *request, in *kmsg.CreateTopicsRequestTopic, twice bool) (coordinator.TopicSpec, error) {
	spec := coordinator.TopicSpec{Name: in.Topic}
	if r.refused != nil {
		return spec, r.refused
	}
	if twice {
		return spec, fmt.Errorf("%w: the topic stands twice in the request", kerr.InvalidRequest)
	}
	if !r.seesCluster(acl.Create) && !r.may(acl.Create, acl.Topic, in.Topic) {
		return spec, kerr.TopicAuthorizationFailed
	}
	if err := checkNewName(s.backend.View(), in.Topic); err != nil {
		return spec, err // before all else that may be wrong with it, as in Kafka
	}
	spec, err := s.topicSpec(in)
	if err == nil {
		err = s.mutate(r, int(spec.Partitions), 6)
	}
	return spec, err
}

func (s *Server) createOne(ctx context.Context, r *request, spec coordinator.TopicSpec, err error) kmsg.CreateTopicsResponseTopic {
	out := kmsg.NewCreateTopicsResponseTopic()
	out.Topic, out.Configs = spec.Name, []kmsg.CreateTopicsResponseTopicConfig{}
	var t *projections.Topic
	if err == nil {
		t, err = s.createTopic(ctx, spec, r.msg.(*kmsg.CreateTopicsRequest).ValidateOnly)
	}
	if err != nil {
		out.ErrorCode, out.ErrorMessage = s.failure(kmsg.CreateTopics, err), r.message(err)
		out.NumPartitions, out.ReplicationFactor = -1, -1
		return out
	}
	out.TopicID = t.ID
	if !r.sees(acl.DescribeConfigs, acl.Topic, spec.Name) {
		out.ConfigErrorCode, out.NumPartitions, out.ReplicationFactor = kerr.TopicAuthorizationFailed.Code, -1, -1
		return out
	}
	out.NumPartitions, out.ReplicationFactor = int32(len(t.Partitions)), 1
	for _, c := range s.cfg.describeTopic(s.backend.View(), t.Configs) {
		if !r.room(elementBytes + len(c.name) + len(c.value)) { // it is made all the same
			out.ConfigErrorCode, out.Configs = kerr.InvalidRequest.Code, nil
			break
		}
		o := kmsg.NewCreateTopicsResponseTopicConfig()
		o.Name, o.Value, o.Source = c.name, &c.value, int8(c.source)
		out.Configs = append(out.Configs, o)
	}
	return out
}

// createTopic is how every topic is made, whoever asks.
func (s *Server) createTopic(ctx context.Context, spec coordinator.TopicSpec, validateOnly bool) (*projections.Topic, error) {
	if err := checkNewName(s.backend.View(), spec.Name); err != nil {
		return nil, err
	}
	return s.backend.CreateTopic(ctx, spec, validateOnly)
}

func checkNewName(view *projections.Cluster, name string) error {
	if err := projections.ValidateTopicName(name); err != nil {
		return err
	}
	if view.Topic(name) != nil {
		return fmt.Errorf("%w: topic %q", kerr.TopicAlreadyExists, name)
	}
	return view.CheckCollision(name)
}

// topicSpec judges a request's numbers, assignment and configuration.
func (s *Server) topicSpec(in *kmsg.CreateTopicsRequestTopic) (coordinator.TopicSpec, error) {
	spec := coordinator.TopicSpec{Name: in.Topic, Partitions: in.NumPartitions}
	var err error
	if spec.Configs, err = topicConfigsOf(in.Configs); err == nil {
		err = s.cfg.checkTopicConfigs(s.backend.View(), spec.Configs)
	}
	if err != nil {
		return spec, err
	}
	if len(in.ReplicaAssignment) > 0 {
		spec.Partitions, err = s.checkAssignment(in)
	} else {
		spec.Partitions, err = s.checkCounts(in)
	}
	return spec, err
}

func (s *Server) checkCounts(in *kmsg.CreateTopicsRequestTopic) (int32, error) {
	n := in.NumPartitions
	if n == -1 {
		n = s.cfg.NumPartitions
	}
	switch {
	case n <= 0 || n > projections.MaxPartitions:
		return 0, fmt.Errorf("%w: %d partitions, not from 1 to %d", kerr.InvalidPartitions, in.NumPartitions, projections.MaxPartitions)
	case in.ReplicationFactor == 0 || in.ReplicationFactor < -1:
		return 0, fmt.Errorf("%w: %d, neither -1 nor at least 1", kerr.InvalidReplicationFactor, in.ReplicationFactor)
	}
	return n, nil
}

func (s *Server) checkAssignment(in *kmsg.CreateTopicsRequestTopic) (int32, error) {
	if in.NumPartitions != -1 || in.ReplicationFactor != -1 {
		return 0, fmt.Errorf("%w: an assignment excludes counts of partitions and replicas", kerr.InvalidRequest)
	}
	view := s.backend.View()
	n := len(in.ReplicaAssignment)
	seen := make([]bool, min(n, projections.MaxPartitions))
	bad := func(format string, a ...any) (int32, error) {
		return 0, fmt.Errorf("%w: %s", kerr.InvalidReplicaAssignment, fmt.Sprintf(format, a...))
	}
	for _, a := range in.ReplicaAssignment {
		if a.Partition < 0 || int(a.Partition) >= len(seen) || seen[a.Partition] {
			return bad("partition %d: they must be 0 to %d, once each", a.Partition, n-1)
		}
		seen[a.Partition] = true
		if len(a.Replicas) != len(in.ReplicaAssignment[0].Replicas) {
			return bad("partition %d has %d replicas; all must have as many", a.Partition, len(a.Replicas))
		}
		if err := checkReplicas(view, a.Partition, a.Replicas); err != nil {
			return 0, err
		}
	}
	return int32(n), nil
}

// checkReplicas judges the brokers that a request names for a partition.
func checkReplicas(view *projections.Cluster, index int32, replicas []int32) error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("%w: partition %d %s", kerr.InvalidReplicaAssignment, index, fmt.Sprintf(format, a...))
	}
	if len(replicas) == 0 {
		return bad("has no replicas")
	}
	for i, id := range replicas {
		if b, ok := view.Broker(id); !ok || b.Fenced {
			return bad("names broker %d, which is not known", id)
		}
		if slices.Contains(replicas[:i], id) {
			return bad("names broker %d twice", id)
		}
	}
	return nil
}

// topicConfigsOf is a new topic's configuration, whose values are still to be judged.
func topicConfigsOf(in []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	out := make(map[string]string, len(in))
	for _, c := range in {
		if c.Value == nil {
			return nil, fmt.Errorf("%w: %q has no value", kerr.InvalidConfig, c.Name)
		}
		out[c.Name] = strings.TrimSpace(*c.Value)
	}
	return out, nil
}
