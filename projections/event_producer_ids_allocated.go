package projections

import (
	"fmt"
	"math"
)

// ProducerIDsAllocated says that a broker may hand out the producer IDs First to
// First+Count-1. None of them is ever handed out by anybody else.
type ProducerIDsAllocated struct {
	First  int64 `msgpack:"first" json:"first"`
	Count  int64 `msgpack:"count" json:"count"`
	Broker int32 `msgpack:"broker" json:"broker"`
}

func init() { register(func() Fact { return new(ProducerIDsAllocated) }) }

// EventName implements Fact.
func (*ProducerIDsAllocated) EventName() string { return "ProducerIDsAllocated" }

func (e *ProducerIDsAllocated) String() string {
	return fmt.Sprintf("producer IDs from %d, %d of them, allocated to broker %d", e.First, e.Count, e.Broker)
}

func (e *ProducerIDsAllocated) apply(d *draft) {
	if e.First < 0 || e.Count < 1 || e.First > math.MaxInt64-e.Count {
		return
	}
	d.nextProducerID = max(d.nextProducerID, e.First+e.Count)
}
