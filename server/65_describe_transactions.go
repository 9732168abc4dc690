package server

// DescribeTransactions, key 65, version 0 (KIP-664).
//
// Each transactional ID for itself, TRANSACTIONAL_ID_NOT_FOUND where there is none. Shards of
// groups are shown as partitions of __consumer_offsets; what a deleted topic had is left
// out, and so is what who asks may not describe.

import (
	"cmp"
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
	"kaas.dev/kaas/server/acl"
)

var describeTransactionsAPI = api{key: kmsg.DescribeTransactions, min: 0, max: 0, wide: true, access: checks(right{acl.Describe, acl.TransactionalID}, right{acl.Describe, acl.Topic}), start: (*Server).describeTransactions}

func (s *Server) describeTransactions(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.DescribeTransactionsRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrDescribeTransactionsResponse()
		ids := distinct(req.TransactionalIDs, itself)
		resp.TransactionStates = make([]kmsg.DescribeTransactionsResponseTransactionState, len(ids))
		inParallel(len(ids), func(i int) {
			o := &resp.TransactionStates[i]
			o.Default()
			o.TransactionalID = ids[i]
			t, err := s.describeTxn(ctx, r, o.TransactionalID)
			if err == nil && r.room(elementBytes*(1+len(t.Partitions))) {
				tellTxn(r, s.backend.View(), t, o)
			}
			o.ErrorCode = s.groupFailure(kmsg.DescribeTransactions, err)
		})
		return resp, nil
	})
}

func (s *Server) describeTxn(ctx context.Context, r *request, id string) (*txns.Txn, error) {
	if err := r.deniedTxn(acl.Describe, id); err != nil {
		return nil, err
	}
	shard, err := s.txnShardOf(id)
	if err != nil {
		return nil, err
	}
	return shard.Describe(ctx, id)
}

func tellTxn(r *request, view *projections.Cluster, t *txns.Txn, o *kmsg.DescribeTransactionsResponseTransactionState) {
	o.State, o.TimeoutMillis, o.StartTimestamp = t.State.String(), t.Timeout, t.Started
	o.ProducerID, o.ProducerEpoch = t.ProducerID, t.Epoch
	byTopic := map[string][]int32{}
	for _, p := range t.Partitions {
		if topic := view.TopicByID(p.Topic); topic != nil {
			byTopic[topic.Name] = append(byTopic[topic.Name], p.Index)
		}
	}
	if len(t.Groups) > 0 {
		byTopic[offsetsTopic] = t.Groups
	}
	for name, ps := range byTopic {
		if !r.may(acl.Describe, acl.Topic, name) {
			continue
		}
		ot := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
		ot.Topic, ot.Partitions = name, ps
		o.Topics = append(o.Topics, ot)
	}
	slices.SortFunc(o.Topics, func(a, b kmsg.DescribeTransactionsResponseTransactionStateTopic) int {
		return cmp.Compare(a.Topic, b.Topic)
	})
}
