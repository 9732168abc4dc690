package server

// AddPartitionsToTxn, key 24, versions 0 to 5.
//
// Clients of transaction version 1 send versions 0 to 3, for one transaction: all partitions
// are added or, with any unknown one (UNKNOWN_TOPIC_OR_PARTITION), none
// (OPERATION_NOT_ATTEMPTED). Versions 4 and 5 are between brokers, for many transactions, each
// to be added or only looked for (KIP-890): a partition that is not part of the transaction is
// TRANSACTION_ABORTABLE, in version 4 INVALID_TXN_STATE. Partitions of __consumer_offsets are
// shards of groups.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/server/acl"
)

var addPartitionsToTxnAPI = api{key: kmsg.AddPartitionsToTxn, min: 0, max: 5, access: checks(right{acl.Write, acl.TransactionalID}, right{acl.Write, acl.Topic}, right{acl.ClusterAction, acl.Cluster}), start: (*Server).addPartitionsToTxn}

func (s *Server) addPartitionsToTxn(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AddPartitionsToTxnRequest)
	if req.Version >= 4 {
		if err := r.deniedCluster(acl.ClusterAction); err != nil {
			resp := kmsg.NewPtrAddPartitionsToTxnResponse()
			resp.ErrorCode = s.failure(kmsg.AddPartitionsToTxn, err)
			return now(resp)
		}
		s.excuse(r)
		return later(func(ctx context.Context) (kmsg.Response, error) { return s.joinTxns(ctx, req), nil })
	}
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		call := newJoinCall(s, req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch)
		call.denied = r.deniedTxn(acl.Write, req.TransactionalID)
		for _, t := range req.Topics {
			var denied error
			switch {
			case t.Topic == offsetsTopic:
				denied = kerr.TopicAuthorizationFailed // it is the coordinators' own, as in Kafka
			case call.denied == nil:
				denied = r.denied(acl.Write, t.Topic)
			}
			call.topic(t.Topic, t.Partitions, denied)
		}
		call.run(ctx, false)
		resp := kmsg.NewPtrAddPartitionsToTxnResponse()
		for _, t := range call.topics {
			o := kmsg.NewAddPartitionsToTxnResponseTopic()
			o.Topic = t.name
			for i, p := range t.partitions {
				op := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				op.Partition, op.ErrorCode = p, call.code(t.errs[i])
				o.Partitions = append(o.Partitions, op)
			}
			resp.Topics = append(resp.Topics, o)
		}
		return resp
	})
}

// joinTxns answers for all transactions of a broker's request at once.
func (s *Server) joinTxns(ctx context.Context, req *kmsg.AddPartitionsToTxnRequest) kmsg.Response {
	resp := kmsg.NewPtrAddPartitionsToTxnResponse()
	resp.Transactions = make([]kmsg.AddPartitionsToTxnResponseTransaction, len(req.Transactions))
	inParallel(len(req.Transactions), func(i int) {
		in, out := &req.Transactions[i], &resp.Transactions[i]
		out.Default()
		out.TransactionalID = in.TransactionalID
		call := newJoinCall(s, req.Version, in.TransactionalID, in.ProducerID, in.ProducerEpoch)
		for _, t := range in.Topics {
			call.topic(t.Topic, t.Partitions, nil)
		}
		call.run(ctx, in.VerifyOnly)
		for _, t := range call.topics {
			o := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
			o.Topic = t.name
			for i, p := range t.partitions {
				op := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
				op.Partition, op.ErrorCode = p, call.code(t.errs[i])
				o.Partitions = append(o.Partitions, op)
			}
			out.Topics = append(out.Topics, o)
		}
	})
	return resp
}

// joinCall is one transaction of a request on its way.
type joinCall struct {
	s       *Server
	version int16
	add     txnshard.Add
	topics  []joinTopic
	// parts are where the errors of the add's partitions, and of its shards, stand.
	parts, shards []*error
	unknown       bool
	denied        error // all of it
}

type joinTopic struct {
	name       string
	partitions []int32
	errs       []error
}

func newJoinCall(s *Server, version int16, id string, producer int64, epoch int16) *joinCall {
	return &joinCall{s: s, version: version, add: txnshard.Add{ID: id, Producer: txnshard.Producer{ID: producer, Epoch: epoch}}}
}

// topic lays out what is asked of a topic, or why it is denied.
func (c *joinCall) topic(name string, partitions []int32, denied error) {
	t := joinTopic{name, partitions, make([]error, len(partitions))}
	view := c.s.backend.View()
	for i, p := range partitions {
		if t.errs[i] = denied; denied == nil {
			t.errs[i] = addPart(view, &c.add, name, p)
		}
		switch {
		case c.denied != nil:
			t.errs[i] = c.denied
		case t.errs[i] != nil:
			c.unknown = true
		case name == offsetsTopic:
			c.shards = append(c.shards, &t.errs[i])
		default:
			c.parts = append(c.parts, &t.errs[i])
		}
	}
	c.topics = append(c.topics, t)
}

// run adds the parts or looks for them, and notes what came of each.
func (c *joinCall) run(ctx context.Context, verify bool) {
	known := append(c.parts, c.shards...)
	errs, err := c.ask(ctx, verify)
	for i, e := range known {
		if *e = err; err == nil && errs != nil {
			*e = errs[i]
		}
	}
}

func (c *joinCall) ask(ctx context.Context, verify bool) ([]error, error) {
	switch {
	case c.denied != nil:
		return nil, c.denied
	case c.unknown && !verify:
		return nil, kerr.OperationNotAttempted
	}
	shard, err := c.s.txnShardOf(c.add.ID)
	switch {
	case err != nil:
		return nil, err
	case verify:
		return shard.Verify(ctx, c.add)
	}
	return nil, shard.Add(ctx, c.add)
}

func (c *joinCall) code(err error) int16 {
	if c.version < 4 && errors.Is(err, kerr.TransactionAbortable) {
		err = kerr.InvalidTxnState
	}
	return c.s.txnFailure(kmsg.AddPartitionsToTxn, c.version >= 2, err)
}
