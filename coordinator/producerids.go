package coordinator

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// producerIDBlock is how many producer IDs are allocated at once.
const producerIDBlock = 1000

// AllocateProducerIDs returns a block of producer IDs, first to first+count-1,
// that nobody else ever gets: the block is committed before it is returned. What
// is left of a block when a process dies is never used.
func (b *Broker) AllocateProducerIDs(ctx context.Context) (first, count int64, err error) {
	if !b.IsController() {
		return b.askProducerIDs(ctx)
	}
	// Only who reads done may look at block: decide may still run after ctx ended.
	var block projections.ProducerIDsAllocated
	done := make(chan error, 1)
	decide := func(c *projections.Cluster) ([]metalog.Event, error) {
		block = projections.ProducerIDsAllocated{First: c.NextProducerID(), Count: producerIDBlock, Broker: b.opt.NodeID}
		return projections.NewEvents(&block)
	}
	if !b.spawn(func() { _, err := b.publish(b.run, "producer IDs allocated", decide); done <- err }) {
		return 0, 0, clientError(b.whyEnded())
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return 0, 0, clientError(fmt.Errorf("allocate producer IDs: %w", err))
	}
	return block.First, block.Count, nil
}

// askProducerIDs has the controller allocate the block.
func (b *Broker) askProducerIDs(ctx context.Context) (first, count int64, err error) {
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = b.opt.NodeID, b.registered.Load()
	r, err := b.ToController(ctx, req)
	if err != nil {
		return 0, 0, fmt.Errorf("allocate producer IDs: %w", err)
	}
	resp, ok := r.(*kmsg.AllocateProducerIDsResponse)
	if !ok {
		return 0, 0, fmt.Errorf("%w: the controller answered %T", kerr.UnknownServerError, r)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, 0, fmt.Errorf("allocate producer IDs: %w", err)
	}
	return resp.ProducerIDStart, int64(resp.ProducerIDLen), nil
}

// NewProducerID returns a producer ID that nobody has or ever had.
func (b *Broker) NewProducerID(ctx context.Context) (int64, error) {
	return b.ids.take(ctx, b.AllocateProducerIDs)
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
