package server

// InitProducerId, key 22, versions 0 to 5.
//
// For idempotent producers only: each call gets an ID that nobody had, with epoch 0.
// A transactional ID is refused with UNSUPPORTED_VERSION, which no client tries
// again: transactions are not served yet.

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var initProducerIDAPI = api{key: kmsg.InitProducerID, min: 0, max: 5, start: (*Server).initProducerID}

func (s *Server) initProducerID(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.InitProducerIDRequest)
	return later(func(ctx context.Context) (kmsg.Response, error) {
		resp := kmsg.NewPtrInitProducerIDResponse()
		resp.ProducerID, resp.ProducerEpoch = -1, -1
		var err error
		switch {
		case req.TransactionalID == nil:
			resp.ProducerID, err = s.ids.take(ctx, s.backend.AllocateProducerIDs)
		case *req.TransactionalID == "":
			err = kerr.InvalidRequest
		default:
			err = kerr.UnsupportedVersion
		}
		if err == nil {
			resp.ProducerEpoch = 0
		}
		resp.ErrorCode = s.failure(kmsg.InitProducerID, err)
		return resp, nil
	})
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
