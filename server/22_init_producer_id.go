package server

// InitProducerId, key 22, versions 0 to 5.
//
// An idempotent producer gets an ID that nobody had, with epoch 0. The producer of a
// transactional ID gets that one's ID with an epoch that fences all before it, from its
// coordinator; from version 3 on it may say which it has, to go on after an error (KIP-360).
// A fenced one is INVALID_PRODUCER_EPOCH below version 4.

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/txnshard"
)

var initProducerIDAPI = api{key: kmsg.InitProducerID, min: 0, max: 5, start: (*Server).initProducerID}

func (s *Server) initProducerID(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.InitProducerIDRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		p, err := s.newProducer(ctx, req)
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

func (s *Server) newProducer(ctx context.Context, req *kmsg.InitProducerIDRequest) (txnshard.Producer, error) {
	if (req.ProducerID < 0) != (req.ProducerEpoch < 0) {
		return txnshard.Producer{}, kerr.InvalidRequest
	}
	if req.TransactionalID == nil {
		id, err := s.ids.take(ctx, s.backend.AllocateProducerIDs)
		return txnshard.Producer{ID: id}, err
	}
	shard, err := s.txnShardOf(*req.TransactionalID)
	if err != nil {
		return txnshard.Producer{}, err
	}
	return shard.InitProducerID(ctx, *req.TransactionalID, req.TransactionTimeoutMillis, txnshard.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch})
}

// producerIDs hands out IDs from a block that the cluster gave. What is left of a
// block when the broker ends is never used.
type producerIDs struct {
	mu struct {
		sync.Mutex
		next, end int64
		refill    chan struct{} // closed when the caller who asks for a block is done; nil if nobody does
	}
}

type allocate func(context.Context) (first, count int64, err error)

func (p *producerIDs) take(ctx context.Context, more allocate) (int64, error) {
	for {
		id, wait, mine := p.tryTake()
		switch {
		case id >= 0:
			return id, nil
		case mine:
			if err := p.fill(ctx, wait, more); err != nil {
				return -1, err
			}
		default:
			select {
			case <-wait:
			case <-ctx.Done():
				return -1, ctx.Err()
			}
		}
	}
}

// tryTake returns an ID, or the channel to wait on and whether the caller is the
// one who must ask for a block.
func (p *producerIDs) tryTake() (id int64, wait chan struct{}, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next < p.mu.end {
		id = p.mu.next
		p.mu.next++
		return id, nil, false
	}
	mine = p.mu.refill == nil
	if mine {
		p.mu.refill = make(chan struct{})
	}
	return -1, p.mu.refill, mine
}

func (p *producerIDs) fill(ctx context.Context, done chan struct{}, more allocate) error {
	first, count, err := more(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.mu.next, p.mu.end = first, first+count
	}
	p.mu.refill = nil
	close(done)
	return err
}
