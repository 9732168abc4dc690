package server

// InitProducerId, key 22, versions 0 to 5.
//
// An idempotent producer gets an ID that nobody had, with epoch 0. The producer of a
// transactional ID gets that one's ID with an epoch that fences all before it, from its
// coordinator; from version 3 on it may say which it has, to go on after an error (KIP-360).
// A fenced one is INVALID_PRODUCER_EPOCH below version 4.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/server/acl"
)

var initProducerIDAPI = api{key: kmsg.InitProducerID, min: 0, max: 5, access: checks(right{acl.Write, acl.TransactionalID}, right{acl.IdempotentWrite, acl.Cluster}, right{acl.Write, acl.Topic}), start: (*Server).initProducerID}

func (s *Server) initProducerID(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.InitProducerIDRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		p, err := txnshard.Producer{}, deniedProducer(r, req)
		if err == nil {
			p, err = s.newProducer(ctx, req)
		}
		if err == nil {
			resp.ProducerID, resp.ProducerEpoch = p.ID, p.Epoch
		}
		if req.TransactionalID == nil {
			resp.ErrorCode = s.failure(kmsg.InitProducerID, err)
		} else {
			resp.ErrorCode = s.txnFailure(kmsg.InitProducerID, req.Version >= 4, err)
		}
		return resp, nil
	})
}

// deniedProducer is why who asks may not write under an ID, or with one of his own, or nil. Who
// may write to some topic may do that as an idempotent producer.
func deniedProducer(r *request, req *kmsg.InitProducerIDRequest) error {
	switch {
	case req.TransactionalID != nil:
		return r.deniedTxn(acl.Write, *req.TransactionalID)
	case r.seesCluster(acl.IdempotentWrite), r.maySome(acl.Write, acl.Topic):
		return nil
	}
	return kerr.ClusterAuthorizationFailed
}

func (s *Server) newProducer(ctx context.Context, req *kmsg.InitProducerIDRequest) (txnshard.Producer, error) {
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) { // -1 alone is none, as in Kafka
		return txnshard.Producer{}, kerr.InvalidRequest
	}
	if req.TransactionalID == nil {
		id, err := s.backend.NewProducerID(ctx)
		return txnshard.Producer{ID: id}, err
	}
	shard, err := s.txnShardOf(*req.TransactionalID)
	if err != nil {
		return txnshard.Producer{}, err
	}
	return shard.InitProducerID(ctx, *req.TransactionalID, req.TransactionTimeoutMillis, txnshard.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch})
}
