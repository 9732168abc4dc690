package groups

import "fmt"

// ConsumerGroupChanged says that the group's epoch under the next-generation protocol is
// this. It ends a membership under the classic one.
type ConsumerGroupChanged struct {
	Group      string `msgpack:"g" json:"group"`
	Time       int64  `msgpack:"t" json:"time"`
	Epoch      int32  `msgpack:"e" json:"epoch"`
	TopicsHash uint64 `msgpack:"h" json:"topicsHash"`
}

func init() { register(func() Fact { return new(ConsumerGroupChanged) }) }

// EventName implements Fact.
func (*ConsumerGroupChanged) EventName() string { return "ConsumerGroupChanged" }

func (e *ConsumerGroupChanged) String() string {
	return fmt.Sprintf("group %q is at epoch %d", e.Group, e.Epoch)
}

func (e *ConsumerGroupChanged) group() string { return e.Group }

func (e *ConsumerGroupChanged) apply(g *edit) {
	c := g.consumer()
	c.Epoch, c.TopicsHash = e.Epoch, e.TopicsHash
	g.empty(e.Time)
}
