package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// fenceProducer has the controller commit that nothing below an epoch counts of a producer,
// and returns when this broker's view has it. It is asked for with every heartbeat until then
// (rule 2).
func (b *Broker) fenceProducer(ctx context.Context, id int64, epoch int16) error {
	stands := func() bool {
		e, ok := b.View().FencedEpoch(id)
		return ok && e >= epoch
	}
	if stands() {
		return nil
	}
	b.mu.Lock()
	b.mu.fencing[id] = max(epoch, b.mu.fencing[id])
	b.mu.Unlock()
	b.report()
	err := b.awaitView(ctx, stands)
	b.mu.Lock()
	if e, ok := b.View().FencedEpoch(id); err == nil && ok && e >= b.mu.fencing[id] {
		delete(b.mu.fencing, id)
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("fence producer %d below epoch %d: %w", id, epoch, err)
	}
	return nil
}

const (
	producerFenceBytes = 8 + 2
	// mostFences is how many are asked for with one heartbeat.
	mostFences = 10_000
)

// fencesWanted are the fences that are asked for, as a heartbeat has them. What the view has
// by now, though nobody waits for it any more, is forgotten.
func (b *Broker) fencesWanted() (out []byte) {
	view := b.View()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(b.mu.fencing)) {
		epoch := b.mu.fencing[id]
		if e, ok := view.FencedEpoch(id); ok && e >= epoch {
			delete(b.mu.fencing, id)
			continue
		}
		if len(out) < mostFences*producerFenceBytes {
			out = binary.BigEndian.AppendUint64(out, uint64(id))
			out = binary.BigEndian.AppendUint16(out, uint16(epoch))
		}
	}
	return out
}

func parseFences(raw []byte) (map[int64]int16, error) {
	if len(raw)%producerFenceBytes != 0 {
		return nil, fmt.Errorf("tag %d has %d bytes, no multiple of %d", fencesTag, len(raw), producerFenceBytes)
	}
	out := map[int64]int16{}
	for ; len(raw) > 0; raw = raw[producerFenceBytes:] {
		id, epoch := int64(binary.BigEndian.Uint64(raw)), int16(binary.BigEndian.Uint16(raw[8:]))
		if id < 0 || epoch < 0 {
			return nil, fmt.Errorf("tag %d has producer %d with epoch %d", fencesTag, id, epoch)
		}
		out[id] = epoch
	}
	return out, nil
}

// fenceProducers publishes what brokers ask for and the view does not have.
func (c *controller) fenceProducers(view *projections.Cluster) error {
	wanted := map[int64]int16{}
	c.mu.Lock()
	for _, b := range view.Brokers() {
		if p := c.peerOf(b); p != nil {
			for id, epoch := range p.fences {
				if e, ok := view.FencedEpoch(id); !ok || e < epoch {
					wanted[id] = max(wanted[id], epoch)
				}
			}
		}
	}
	c.mu.Unlock()
	if len(wanted) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(wanted))
	_, err := c.b.publish(c.ctx, fmt.Sprintf("producers fenced: %d", len(ids)), func(v *projections.Cluster) ([]metalog.Event, error) {
		var fs []projections.Fact
		for _, id := range ids {
			if f := v.FenceProducer(id, wanted[id], c.b.opt.Now()); f != nil {
				fs = append(fs, f)
			}
		}
		return projections.NewEvents(fs...)
	})
	return err
}

// expireFences forgets fences of producers whose transactional IDs are forgotten too.
func (c *controller) expireFences(*projections.Cluster) error {
	if time.Since(c.fencesSeen) < expireFencesEvery {
		return nil
	}
	c.fencesSeen = time.Now()
	before := c.b.opt.Now().Add(-c.b.opt.FenceExpiry)
	if c.b.View().ExpireProducerFences(before) == nil {
		return nil
	}
	_, err := c.b.publish(c.ctx, "fences of producers expired", func(v *projections.Cluster) ([]metalog.Event, error) {
		if f := v.ExpireProducerFences(before); f != nil {
			return projections.NewEvents(f)
		}
		return nil, nil
	})
	return err
}

const expireFencesEvery = time.Minute
