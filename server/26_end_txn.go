package server

// EndTxn, key 26, versions 0 to 5.
//
// Answered when the end is decided and committed; the markers are written after that. From
// version 5 on, which is transaction version 2, every end raises the producer's epoch and the
// answer tells who begins the next transaction; the end that is asked for again is answered
// as before (KIP-890). A fenced producer is INVALID_PRODUCER_EPOCH below version 2.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/server/acl"
)

var endTxnAPI = api{key: kmsg.EndTxn, min: 0, max: 5, access: checks(right{acl.Write, acl.TransactionalID}), start: (*Server).endTxn}

func (s *Server) endTxn(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.EndTxnRequest)
	return s.inGroupTurn(r, func(ctx context.Context) kmsg.Response {
		resp := kmsg.NewPtrEndTxnResponse()
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		next, err := s.endTransaction(ctx, r, req)
		if err == nil {
			resp.ProducerID, resp.ProducerEpoch = next.ID, next.Epoch
		}
		resp.ErrorCode = s.txnFailure(kmsg.EndTxn, req.Version >= 2, err)
		return resp
	})
}

func (s *Server) endTransaction(ctx context.Context, r *request, req *kmsg.EndTxnRequest) (txnshard.Producer, error) {
	if err := r.deniedTxn(acl.Write, req.TransactionalID); err != nil {
		return txnshard.Producer{}, err
	}
	shard, err := s.txnShardOf(req.TransactionalID)
	if err != nil {
		return txnshard.Producer{}, err
	}
	version := int8(0)
	if req.Version >= 5 {
		version = 2
	}
	return shard.End(ctx, req.TransactionalID, txnshard.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}, req.Commit, version)
}
