package projections

import "fmt"

// BrokerFenced says that a broker's registration serves nobody any more. A later
// registration of the same ID is not touched.
type BrokerFenced struct {
	ID    int32 `msgpack:"id" json:"id"`
	Epoch int64 `msgpack:"epoch" json:"epoch"`
}

func init() { register(func() Fact { return new(BrokerFenced) }) }

// EventName implements Fact.
func (*BrokerFenced) EventName() string { return "BrokerFenced" }

func (e *BrokerFenced) String() string {
	return fmt.Sprintf("broker %d fenced, epoch %d", e.ID, e.Epoch)
}

func (e *BrokerFenced) apply(d *draft) { d.fence(e.ID, e.Epoch, true) }
