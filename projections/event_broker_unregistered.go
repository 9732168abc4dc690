package projections

import "fmt"

// BrokerUnregistered says that a broker is no part of the cluster any more. What it
// led stays as it is until other events give it away. A later registration of the
// same ID is not touched.
type BrokerUnregistered struct {
	ID    int32 `msgpack:"id" json:"id"`
	Epoch int64 `msgpack:"epoch" json:"epoch"`
}

func init() { register(func() Fact { return new(BrokerUnregistered) }) }

// EventName implements Fact.
func (*BrokerUnregistered) EventName() string { return "BrokerUnregistered" }

func (e *BrokerUnregistered) String() string {
	return fmt.Sprintf("broker %d unregistered, epoch %d", e.ID, e.Epoch)
}

func (e *BrokerUnregistered) apply(d *draft) {
	if b, ok := d.brokers[e.ID]; ok && b.Epoch == e.Epoch {
		d.dropBroker(e.ID)
	}
}
