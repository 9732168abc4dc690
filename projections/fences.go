package projections

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"kaas.dev/kaas/projections/internal/ordered"
)

// fence is the lowest epoch that counts of a producer, and when it was last raised.
type fence struct {
	epoch int16
	time  int64 // milliseconds since 1970
}

// ProducerFence is a fence of the view.
type ProducerFence struct {
	ProducerID int64
	Epoch      int16
	Time       int64 // milliseconds since 1970
}

// FencedEpoch returns the lowest epoch that counts of a producer. ok is false where it was
// never fenced, or that was too long ago.
func (c *Cluster) FencedEpoch(producerID int64) (epoch int16, ok bool) {
	f, ok := c.fences.Get(producerID)
	return f.epoch, ok
}

// ProducerFences goes through the fences by producer ID.
func (c *Cluster) ProducerFences() iter.Seq[ProducerFence] {
	return func(yield func(ProducerFence) bool) {
		for id, f := range c.fences.All {
			if !yield(ProducerFence{id, f.epoch, f.time}) {
				return
			}
		}
	}
}

// FenceProducer is the fact that fences a producer below an epoch, nil where the view has it
// so. Its time is never one that has expired, whatever the clock says: what is older than
// that would be taken for forgotten.
func (c *Cluster) FenceProducer(id int64, epoch int16, now time.Time) *ProducerFenced {
	if f, ok := c.fences.Get(id); ok && f.epoch >= epoch {
		return nil
	}
	return &ProducerFenced{ProducerID: id, Epoch: epoch, Time: max(now.UnixMilli(), c.fencesExpired)}
}

// ExpireProducerFences is the fact that forgets all fences older than a time, nil where there
// are none.
func (c *Cluster) ExpireProducerFences(before time.Time) *ProducerFencesExpired {
	ms := before.UnixMilli()
	for _, f := range c.fences.All {
		if f.time < ms && ms > c.fencesExpired {
			return &ProducerFencesExpired{Before: ms}
		}
	}
	return nil
}

// producerFence is what the draft has of a producer, the changes of the batch included.
func (d *draft) producerFence(id int64) (fence, bool) {
	if ch, ok := d.fenced[id]; ok {
		return ch.Value, true
	}
	return d.fences.Get(id)
}

func (d *draft) setProducerFence(id int64, f fence) {
	if d.fenced == nil {
		d.fenced = map[int64]ordered.Change[fence]{}
	}
	d.fenced[id] = ordered.Change[fence]{Value: f}
}

// settleFences puts the batch's fences into the view.
func (d *draft) settleFences() {
	d.fences = d.fences.With(d.fenced)
	d.fenced = nil
}

func (d *draft) expireProducerFences(before int64) {
	d.settleFences()
	gone := map[int64]ordered.Change[fence]{}
	for id, f := range d.fences.All {
		if f.time < before {
			gone[id] = ordered.Change[fence]{Gone: true}
		}
	}
	d.fences = d.fences.With(gone)
}

// encodeFences flattens the fences: three numbers each, which are its ID, epoch and time.
func encodeFences(c *Cluster) []int64 {
	out := make([]int64, 0, 3*c.fences.Len())
	for id, f := range c.fences.All {
		out = append(out, id, int64(f.epoch), f.time)
	}
	return out
}

// decodeFences is the inverse, into a view. It refuses what no fold gives.
func (c *Cluster) decodeFences(flat []int64, expired int64) error {
	es := make([]ordered.Entry[int64, fence], 0, len(flat)/3)
	last := int64(-1)
	for ; len(flat) >= 3; flat = flat[3:] {
		id, epoch, at := flat[0], flat[1], flat[2]
		if id <= last || epoch < 0 || epoch > math.MaxInt16 || at < expired {
			return fmt.Errorf("fence of producer %d is out of order or range", id)
		}
		es = append(es, ordered.Entry[int64, fence]{Key: id, Value: fence{int16(epoch), at}})
		last = id
	}
	if len(flat) != 0 {
		return errors.New("part of a producer's fence is missing")
	}
	c.fences, c.fencesExpired = ordered.Of(es), expired
	return nil
}
