package projections

import "fmt"

// BrokerUnfenced says that a broker's registration may lead and serve. A later
// registration of the same ID is not touched.
type BrokerUnfenced struct {
	ID    int32 `msgpack:"id" json:"id"`
	Epoch int64 `msgpack:"epoch" json:"epoch"`
}

func init() { register(func() Fact { return new(BrokerUnfenced) }) }

// EventName implements Fact.
func (*BrokerUnfenced) EventName() string { return "BrokerUnfenced" }

func (e *BrokerUnfenced) String() string {
	return fmt.Sprintf("broker %d unfenced, epoch %d", e.ID, e.Epoch)
}

func (e *BrokerUnfenced) apply(d *draft) { d.fence(e.ID, e.Epoch, false) }
