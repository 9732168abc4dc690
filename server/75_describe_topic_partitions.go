package server

// DescribeTopicPartitions, key 75, version 0 (KIP-966).
//
// Topics by name, those that are named or else all, and their partitions up to the
// request's limit, 2,000 at most. The cursor tells where to go on: in the next request it
// is where to begin. One that no longer fits what is asked for is INVALID_REQUEST, told of
// each topic, for the answer has no error of its own. Nobody but the leader is eligible,
// so that those lists are empty; Kafka's own client does not take null ones.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var describeTopicPartitionsAPI = api{key: kmsg.DescribeTopicPartitions, min: 0, max: 0, wide: true, access: checks(right{acl.Describe, acl.Topic}), start: (*Server).describeTopicPartitions}

const maxDescribed = 2000

func (s *Server) describeTopicPartitions(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeTopicPartitionsRequest)
	view := s.backend.View()
	names := describedNames(view, req)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	from := int32(0)
	if c := req.Cursor; c != nil {
		if c.Partition < 0 || len(req.Topics) > 0 && !slices.Contains(names, c.Topic) {
			for _, name := range namesOf(view, req) {
				if !r.room(elementBytes + len(name)) {
					return now(nil)
				}
				resp.Topics = append(resp.Topics, s.undescribed(name, kerr.InvalidRequest))
			}
			return now(resp)
		}
		first, found := slices.BinarySearch(names, c.Topic)
		if names = names[first:]; found {
			from = c.Partition
		}
	}
	var denied []string
	names = slices.DeleteFunc(names, func(name string) bool {
		if len(req.Topics) == 0 {
			return !r.sees(acl.Describe, acl.Topic, name)
		}
		hidden := !r.may(acl.Describe, acl.Topic, name)
		if hidden {
			denied = append(denied, name)
		}
		return hidden
	})
	defer func() { // behind all that is described, and on every page
		for _, name := range denied {
			if !r.room(elementBytes + len(name)) {
				return
			}
			resp.Topics = append(resp.Topics, s.undescribed(name, kerr.TopicAuthorizationFailed))
		}
	}()
	left := int(max(1, min(req.ResponsePartitionLimit, maxDescribed)))
	for _, name := range names {
		if left == 0 {
			resp.NextCursor = cursorAt(name, 0)
			break
		}
		if !r.room(elementBytes + len(name)) {
			return now(nil)
		}
		t := view.Topic(name)
		if t == nil {
			out := s.undescribed(name, unknownTopic(name))
			out.AuthorizedOperations = r.subject.Operations(acl.Topic, name)
			resp.Topics = append(resp.Topics, out)
			continue
		}
		if !r.room(elementBytes * min(left, len(t.Partitions))) {
			return now(nil)
		}
		out, next := s.describedTopic(r, view, t, int(from), left)
		left, from = left-len(out.Partitions), 0
		resp.Topics = append(resp.Topics, out)
		if next < len(t.Partitions) {
			resp.NextCursor = cursorAt(name, int32(next))
			break
		}
	}
	return now(resp)
}

// describedNames are the topics that are asked for, by name and once each.
func describedNames(view *projections.Cluster, req *kmsg.DescribeTopicPartitionsRequest) []string {
	names := namesOf(view, req)
	slices.Sort(names)
	return slices.Compact(names)
}

// namesOf are the topics that are asked for, as the request has them.
func namesOf(view *projections.Cluster, req *kmsg.DescribeTopicPartitionsRequest) (names []string) {
	if len(req.Topics) == 0 {
		for _, t := range view.Topics() {
			names = append(names, t.Name)
		}
		return names
	}
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	return names
}

// unknownTopic is why no topic has that name.
func unknownTopic(name string) error {
	if err := projections.ValidateTopicName(name); err != nil {
		return err
	}
	return kerr.UnknownTopicOrPartition
}

func cursorAt(topic string, index int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, index
	return &c
}

func (s *Server) undescribed(name string, err error) kmsg.DescribeTopicPartitionsResponseTopic {
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.ErrorCode = &name, s.failure(kmsg.DescribeTopicPartitions, err)
	return out
}

// describedTopic describes at most n partitions from index from on, and tells which is next.
func (s *Server) describedTopic(r *request, view *projections.Cluster, t *projections.Topic, from, n int) (out kmsg.DescribeTopicPartitionsResponseTopic, next int) {
	out = kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.TopicID, out.AuthorizedOperations = &t.Name, t.ID, r.subject.Operations(acl.Topic, t.Name)
	from = min(from, len(t.Partitions))
	next = min(from+n, len(t.Partitions))
	for i := from; i < next; i++ {
		p := s.shown(r.conn, view, t, i)
		o := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		o.Partition, o.LeaderID, o.LeaderEpoch, o.ErrorCode = int32(i), p.leader, p.epoch, codeOf(p.err)
		o.Replicas, o.ISR, o.OfflineReplicas = p.replicas, p.isr, p.offline
		o.EligibleLeaderReplicas, o.LastKnownELR = []int32{}, []int32{}
		out.Partitions = append(out.Partitions, o)
	}
	return out, next
}
