package server

// AddOffsetsToTxn, key 25, versions 0 to 4.
//
// Makes the shard that a group falls into part of a transaction, before TxnOffsetCommit is
// sent there. Clients of transaction version 2 leave it out. A fenced producer is
// INVALID_PRODUCER_EPOCH below version 2.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/server/acl"
)

var addOffsetsToTxnAPI = api{key: kmsg.AddOffsetsToTxn, min: 0, max: 4, access: checks(right{acl.Write, acl.TransactionalID}, right{acl.Read, acl.Group}), start: (*Server).addOffsetsToTxn}

func (s *Server) addOffsetsToTxn(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.AddOffsetsToTxnRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrAddOffsetsToTxnResponse()
		resp.ErrorCode = s.txnFailure(kmsg.AddOffsetsToTxn, req.Version >= 2, s.addOffsets(ctx, r, req))
		return resp
	})
}

func (s *Server) addOffsets(ctx context.Context, r *request, req *kmsg.AddOffsetsToTxnRequest) error {
	if err := r.deniedTxn(acl.Write, req.TransactionalID); err != nil {
		return err
	}
	if err := r.deniedGroup(acl.Read, req.Group); err != nil {
		return err
	}
	shard, err := s.txnShardOf(req.TransactionalID)
	if err != nil {
		return err
	}
	groups, ok := s.backend.View().ShardOf(projections.ShardGroups, req.Group)
	if !ok {
		return kerr.CoordinatorNotAvailable
	}
	return shard.Add(ctx, txnshard.Add{ID: req.TransactionalID, Producer: txnshard.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Groups: []int32{groups}})
}
