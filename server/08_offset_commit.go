package server

// OffsetCommit, key 8, versions 2 to 10.
//
// Offsets are of topics by ID: a name, or from version 10 an ID, that is nobody's is
// answered for its partitions alone (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID), and so is
// a partition that is not there and metadata above offset.metadata.max.bytes
// (OFFSET_METADATA_TOO_LARGE). What is wrong with the group or the member is told for all
// others. Versions 2 to 4 may say how long the offsets are to be kept. From version 9 the
// generation may be a member's epoch (KIP-848); older versions know neither of its codes. A
// group without a name is one, as ever.

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
)

var offsetCommitAPI = api{key: kmsg.OffsetCommit, min: 2, max: 10, access: checks(right{acl.Read, acl.Group}, right{acl.Read, acl.Topic}), start: (*Server).offsetCommit}

func (s *Server) offsetCommit(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.OffsetCommitRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		c := offsetCommitCall{s: s, r: r, req: req, resp: kmsg.NewPtrOffsetCommitResponse(), view: s.backend.View(), expires: -1}
		if req.RetentionTimeMillis >= 0 {
			c.expires = time.Now().UnixMilli() + req.RetentionTimeMillis
		}
		c.denied = r.deniedGroup(acl.Read, req.Group)
		c.resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
		for i := range req.Topics {
			c.topic(&req.Topics[i], &c.resp.Topics[i])
		}
		if len(c.valid) > 0 {
			code := s.groupFailure(kmsg.OffsetCommit, c.commit(ctx))
			for _, p := range c.valid {
				p.ErrorCode = code
			}
		}
		return c.resp
	})
}

// offsetCommitCall is one request on its way.
type offsetCommitCall struct {
	s       *Server
	r       *request
	req     *kmsg.OffsetCommitRequest
	resp    *kmsg.OffsetCommitResponse
	view    *projections.Cluster
	expires int64
	denied  error // the group
	topics  []groups.TopicOffsets
	valid   []*kmsg.OffsetCommitResponseTopicPartition // the answers for topics, in any order
}

// topic sorts out what can be committed of a topic.
func (c *offsetCommitCall) topic(in *kmsg.OffsetCommitRequestTopic, out *kmsg.OffsetCommitResponseTopic) {
	out.Default()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	out.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(in.Partitions))
	t := topicOf(c.view, c.req.Version >= 10, in.Topic, in.TopicID)
	denied := c.denied
	if denied == nil && (t != nil || c.req.Version < 10) {
		denied = c.r.denied(acl.Read, nameOr(t, in.Topic))
	}
	var offsets groups.TopicOffsets
	for i := range in.Partitions {
		p, o := &in.Partitions[i], &out.Partitions[i]
		o.Default()
		o.Partition = p.Partition
		err := denied
		if err == nil {
			err = c.refuse(t, p)
		}
		if err != nil {
			o.ErrorCode = c.s.groupFailure(kmsg.OffsetCommit, err)
			continue
		}
		offsets.Topic = t.ID
		offsets.Partitions = append(offsets.Partitions, groups.PartitionOffset{Partition: p.Partition, Offset: p.Offset,
			LeaderEpoch: p.LeaderEpoch, Metadata: or(p.Metadata, ""), Expires: c.expires})
		c.valid = append(c.valid, o)
	}
	if len(offsets.Partitions) > 0 {
		c.topics = append(c.topics, offsets)
	}
}

func (c *offsetCommitCall) refuse(t *projections.Topic, p *kmsg.OffsetCommitRequestTopicPartition) error {
	switch {
	case t == nil && c.req.Version >= 10:
		return kerr.UnknownTopicID
	case t == nil || !hasPartition(t, p.Partition):
		return kerr.UnknownTopicOrPartition
	case len(or(p.Metadata, "")) > c.s.cfg.Groups.MetadataMaxBytes:
		return kerr.OffsetMetadataTooLarge
	}
	return nil
}

func (c *offsetCommitCall) commit(ctx context.Context) error {
	shard, err := c.s.toWrite(c.req.Group)
	if err != nil {
		return err
	}
	err = shard.Commit(ctx, groupshard.Commit{Group: c.req.Group, MemberID: c.req.MemberID, InstanceID: c.req.InstanceID,
		Generation: c.req.Generation, Topics: c.topics, Epochless: c.req.Version < 9})
	switch {
	case c.req.Version >= 9:
		return err
	case errors.Is(err, kerr.GroupIDNotFound):
		return kerr.IllegalGeneration
	case errors.Is(err, kerr.StaleMemberEpoch):
		return kerr.UnsupportedVersion
	}
	return err
}
