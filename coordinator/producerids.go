package coordinator

import (
	"context"
	"fmt"

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
