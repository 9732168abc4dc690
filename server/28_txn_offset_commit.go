package server

// TxnOffsetCommit, key 28, versions 0 to 6.
//
// Stages offsets in a group, which the end of the producer's transaction commits or drops.
// The transaction's coordinator is asked first: below version 5 whether the group's shard is
// part of the transaction, from version 5 on (transaction version 2) to make it so. What the
// coordinator cannot say yet is COORDINATOR_LOAD_IN_PROGRESS, which makes clients come again
// without looking for another group coordinator; below version 2 they know only
// COORDINATOR_NOT_AVAILABLE for it. From version 3 on the member and its generation are
// fenced (KIP-447), from version 6 on topics are meant by ID.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/server/acl"
)

var txnOffsetCommitAPI = api{key: kmsg.TxnOffsetCommit, min: 0, max: 6, access: checks(right{acl.Write, acl.TransactionalID}, right{acl.Read, acl.Group}, right{acl.Read, acl.Topic}), start: (*Server).txnOffsetCommit}

func (s *Server) txnOffsetCommit(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.TxnOffsetCommitRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		c := txnOffsetCall{s: s, r: r, req: req, resp: kmsg.NewPtrTxnOffsetCommitResponse(), view: s.backend.View()}
		if c.denied = r.deniedTxn(acl.Write, req.TransactionalID); c.denied == nil {
			c.denied = r.deniedGroup(acl.Read, req.Group)
		}
		c.resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
		for i := range req.Topics {
			c.topic(&req.Topics[i], &c.resp.Topics[i])
		}
		if len(c.valid) > 0 {
			code := c.code(c.commit(ctx))
			for _, p := range c.valid {
				p.ErrorCode = code
			}
		}
		return c.resp
	})
}

// txnOffsetCall is one request on its way.
type txnOffsetCall struct {
	s      *Server
	r      *request
	req    *kmsg.TxnOffsetCommitRequest
	resp   *kmsg.TxnOffsetCommitResponse
	view   *projections.Cluster
	denied error // all of it
	topics []groups.TopicOffsets
	valid  []*kmsg.TxnOffsetCommitResponseTopicPartition // the answers for topics, in any order
}

// topic sorts out what can be staged of a topic.
func (c *txnOffsetCall) topic(in *kmsg.TxnOffsetCommitRequestTopic, out *kmsg.TxnOffsetCommitResponseTopic) {
	out.Default()
	out.Topic, out.TopicID = in.Topic, in.TopicID
	out.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(in.Partitions))
	t := topicOf(c.view, c.req.Version >= 6, in.Topic, in.TopicID)
	denied := c.denied
	if denied == nil && (t != nil || c.req.Version < 6) {
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
			o.ErrorCode = c.code(err)
			continue
		}
		offsets.Topic = t.ID
		offsets.Partitions = append(offsets.Partitions, groups.PartitionOffset{Partition: p.Partition, Offset: p.Offset,
			LeaderEpoch: p.LeaderEpoch, Metadata: or(p.Metadata, ""), Expires: -1})
		c.valid = append(c.valid, o)
	}
	if len(offsets.Partitions) > 0 {
		c.topics = append(c.topics, offsets)
	}
}

func (c *txnOffsetCall) refuse(t *projections.Topic, p *kmsg.TxnOffsetCommitRequestTopicPartition) error {
	switch {
	case t == nil && c.req.Version >= 6:
		return kerr.UnknownTopicID
	case t == nil || !hasPartition(t, p.Partition):
		return kerr.UnknownTopicOrPartition
	case len(or(p.Metadata, "")) > c.s.cfg.Groups.MetadataMaxBytes:
		return kerr.OffsetMetadataTooLarge
	}
	return nil
}

func (c *txnOffsetCall) commit(ctx context.Context) error {
	if c.req.TransactionalID == "" {
		return kerr.InvalidRequest
	}
	shard, err := c.s.shardOf(c.req.Group)
	if err != nil {
		return err
	}
	producer := groupshard.Producer{ID: c.req.ProducerID, Epoch: c.req.ProducerEpoch}
	guard, release := shard.Guard(producer)
	defer release()
	if err := c.join(ctx); err != nil {
		return err
	}
	return shard.CommitTxn(ctx, groupshard.Commit{Group: c.req.Group, MemberID: c.req.MemberID, InstanceID: c.req.InstanceID,
		Generation: c.req.Generation, Topics: c.topics}, producer, guard)
}

// join has the transaction's coordinator say that the group's shard is part of it.
func (c *txnOffsetCall) join(ctx context.Context) error {
	index, ok := c.view.ShardOf(projections.ShardGroups, c.req.Group)
	if !ok {
		return kerr.CoordinatorNotAvailable
	}
	implicit := c.req.Version >= 5
	errs, err := c.s.backend.JoinTxn(ctx, txnshard.Add{ID: c.req.TransactionalID,
		Producer: txnshard.Producer{ID: c.req.ProducerID, Epoch: c.req.ProducerEpoch}, Groups: []int32{index}}, !implicit)
	if err == nil && len(errs) > 0 {
		err = errs[0]
	}
	var known *kerr.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &known), known == kerr.NotCoordinator, known == kerr.CoordinatorNotAvailable, known == kerr.RequestTimedOut,
		known == kerr.ConcurrentTransactions && !implicit:
		return kerr.CoordinatorLoadInProgress
	}
	return err
}

// code is an error in the words of the request's version.
func (c *txnOffsetCall) code(err error) int16 {
	v := c.req.Version
	switch {
	case v < 2 && errors.Is(err, kerr.CoordinatorLoadInProgress):
		err = kerr.CoordinatorNotAvailable
	case v < 4 && errors.Is(err, kerr.TransactionAbortable):
		err = kerr.InvalidTxnState
	case v < 6 && errors.Is(err, kerr.StaleMemberEpoch):
		err = kerr.IllegalGeneration
	}
	return c.s.groupFailure(kmsg.TxnOffsetCommit, err)
}
