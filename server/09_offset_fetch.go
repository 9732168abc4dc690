package server

// OffsetFetch, key 9, versions 1 to 10.
//
// One group up to version 7, many from version 8; the topics asked for, or from version 2
// all that there are (null). An offset that there is none of is -1 without an error,
// whether the group, the topic, or the partition is unknown; an ID that is nobody's (version
// 10) is UNKNOWN_TOPIC_ID. With RequireStable (version 7) a partition whose newest offset
// depends on a transaction is UNSTABLE_OFFSET_COMMIT. From version 9 a member of the
// next-generation protocol may have its epoch checked. What is wrong with the group is told
// for it, but up to version 1 for its partitions.

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
)

var offsetFetchAPI = api{key: kmsg.OffsetFetch, min: 1, max: 10, wide: true, access: checks(right{acl.Describe, acl.Group}, right{acl.Describe, acl.Topic}), start: (*Server).offsetFetch}

func (s *Server) offsetFetch(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.OffsetFetchRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrOffsetFetchResponse()
		resp.Version = req.Version
		if req.Version < 8 {
			one := oneGroup(req)
			oneAnswer(resp, &one, s.fetchGroup(ctx, r, &one))
			return resp
		}
		asked := distinctGroups(req.Groups)
		resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(asked))
		inParallel(len(asked), func(i int) { resp.Groups[i] = s.fetchGroup(ctx, r, &asked[i]) })
		return resp
	})
}

// distinctGroups leaves out what asks again for all offsets of a group.
func distinctGroups(in []kmsg.OffsetFetchRequestGroup) []kmsg.OffsetFetchRequestGroup {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(in), func(g kmsg.OffsetFetchRequestGroup) bool {
		again := g.Topics == nil && seen[g.Group]
		seen[g.Group] = seen[g.Group] || g.Topics == nil
		return again
	})
}

// oneGroup is what a request up to version 7 asks for, as one of the later.
func oneGroup(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = req.Group, -1
	if req.Topics == nil {
		return g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
	for i := range req.Topics {
		g.Topics[i].Topic, g.Topics[i].Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
	}
	return g
}

// oneAnswer is the inverse for the answer.
func oneAnswer(resp *kmsg.OffsetFetchResponse, asked *kmsg.OffsetFetchRequestGroup, g kmsg.OffsetFetchResponseGroup) {
	resp.ErrorCode = g.ErrorCode
	if g.ErrorCode != 0 && resp.Version < 2 {
		g.Topics = noOffsets(asked, g.ErrorCode)
	}
	for _, t := range g.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition(p))
		}
		resp.Topics = append(resp.Topics, out)
	}
}

// fetchGroup answers for one group.
func (s *Server) fetchGroup(ctx context.Context, r *request, asked *kmsg.OffsetFetchRequestGroup) kmsg.OffsetFetchResponseGroup {
	req := r.msg.(*kmsg.OffsetFetchRequest)
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = asked.Group
	var g *groups.Group
	err := r.deniedGroup(acl.Describe, asked.Group)
	if err == nil {
		g, err = s.committed(ctx, asked)
	}
	if err != nil {
		out.ErrorCode = s.groupFailure(kmsg.OffsetFetch, err)
		return out
	}
	f := offsetFetcher{r: r, view: s.backend.View(), group: g, stable: req.RequireStable, byID: req.Version >= 10}
	if asked.Topics == nil {
		out.Topics = f.all()
		return out
	}
	for i := range asked.Topics {
		out.Topics = append(out.Topics, f.topic(&asked.Topics[i]))
	}
	return out
}

func (s *Server) committed(ctx context.Context, asked *kmsg.OffsetFetchRequestGroup) (*groups.Group, error) {
	shard, err := s.backend.GroupShard(asked.Group)
	if err != nil {
		return nil, err
	}
	return shard.Fetch(ctx, asked.Group, asked.MemberID, asked.MemberEpoch)
}

// offsetFetcher reads one group's offsets.
type offsetFetcher struct {
	r      *request
	view   *projections.Cluster
	group  *groups.Group // nil: none
	stable bool
	byID   bool
}

func (f *offsetFetcher) all() (out []kmsg.OffsetFetchResponseGroupTopic) {
	if f.group == nil {
		return nil
	}
	for _, t := range sortedTopics(f.view, f.group.Offsets) {
		if !f.r.may(acl.Describe, acl.Topic, t.Name) {
			continue
		}
		o := kmsg.NewOffsetFetchResponseGroupTopic()
		o.Topic, o.TopicID = t.Name, t.ID
		for _, p := range sortedPartitions(f.group.Offsets[t.ID]) {
			o.Partitions = append(o.Partitions, f.partition(t, p))
		}
		out = append(out, o)
	}
	return out
}

func (f *offsetFetcher) topic(asked *kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroupTopic {
	o := kmsg.NewOffsetFetchResponseGroupTopic()
	o.Topic, o.TopicID = asked.Topic, asked.TopicID
	t := topicOf(f.view, f.byID, asked.Topic, asked.TopicID)
	var denied error
	if t != nil || !f.byID {
		denied = f.r.denied(acl.Describe, nameOr(t, asked.Topic))
	}
	for _, index := range asked.Partitions {
		p := f.partition(t, index)
		switch {
		case t == nil && f.byID:
			p.ErrorCode = kerr.UnknownTopicID.Code
		case denied != nil:
			p = noOffset(index, kerr.TopicAuthorizationFailed.Code)
		}
		o.Partitions = append(o.Partitions, p)
	}
	return o
}

func (f *offsetFetcher) partition(t *projections.Topic, index int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	o := noOffset(index, 0)
	if !f.r.room(elementBytes) || t == nil || f.group == nil || !f.r.room(len(f.group.Offsets[t.ID][index].Metadata)) {
		return o
	}
	if f.stable && f.unstable(t.ID, index) {
		o.ErrorCode = kerr.UnstableOffsetCommit.Code
		return o
	}
	if c, ok := f.group.Offsets[t.ID][index]; ok {
		o.Offset, o.LeaderEpoch, o.Metadata = c.Offset, c.LeaderEpoch, &c.Metadata
	}
	return o
}

// unstable reports whether an open transaction may give the partition another offset.
func (f *offsetFetcher) unstable(id projections.TopicID, index int32) bool {
	for _, p := range f.group.Pending {
		if _, ok := p.Offsets[id][index]; ok {
			return true
		}
	}
	return false
}

func noOffset(index int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	o := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	o.Partition, o.Offset, o.Metadata, o.ErrorCode = index, -1, new(string), code
	return o
}

// noOffsets answers all that is asked for with a code.
func noOffsets(asked *kmsg.OffsetFetchRequestGroup, code int16) (out []kmsg.OffsetFetchResponseGroupTopic) {
	for _, t := range asked.Topics {
		o := kmsg.NewOffsetFetchResponseGroupTopic()
		o.Topic = t.Topic
		for _, p := range t.Partitions {
			o.Partitions = append(o.Partitions, noOffset(p, code))
		}
		out = append(out, o)
	}
	return out
}
