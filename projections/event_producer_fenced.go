package projections

import "fmt"

// ProducerFenced says that a producer's epoch was raised: nothing that it sends with a lower
// one counts any more, on any partition. [Cluster.FenceProducer] makes it.
type ProducerFenced struct {
	ProducerID int64 `msgpack:"i" json:"producerId"`
	Epoch      int16 `msgpack:"e" json:"epoch"`
	Time       int64 `msgpack:"t" json:"time"` // milliseconds since 1970
}

func init() { register(func() Fact { return new(ProducerFenced) }) }

// EventName implements Fact.
func (*ProducerFenced) EventName() string { return "ProducerFenced" }

func (e *ProducerFenced) String() string {
	return fmt.Sprintf("producer %d fenced below epoch %d", e.ProducerID, e.Epoch)
}

func (e *ProducerFenced) apply(d *draft) {
	if e.ProducerID < 0 || e.Epoch < 0 || e.Time < d.fencesExpired {
		return
	}
	old, ok := d.producerFence(e.ProducerID)
	if ok && e.Epoch <= old.epoch && e.Time <= old.time {
		return
	}
	d.setProducerFence(e.ProducerID, fence{max(e.Epoch, old.epoch), max(e.Time, old.time)})
}
