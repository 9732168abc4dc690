package groups

import "fmt"

// ConsumerTargetChanged says that there is a target for an epoch. Changed holds the members
// whose target is another than before, an empty assignment included. It is about a
// next-generation membership that there is.
type ConsumerTargetChanged struct {
	Group    string  `msgpack:"g" json:"group"`
	Epoch    int32   `msgpack:"e" json:"epoch"`
	Assignor string  `msgpack:"a" json:"assignor"`
	Changed  Targets `msgpack:"c" json:"changed"`
}

func init() { register(func() Fact { return new(ConsumerTargetChanged) }) }

// EventName implements Fact.
func (*ConsumerTargetChanged) EventName() string { return "ConsumerTargetChanged" }

func (e *ConsumerTargetChanged) String() string {
	return fmt.Sprintf("group %q has the target of epoch %d by %q, another for %d member(s)", e.Group, e.Epoch, e.Assignor, len(e.Changed))
}

func (e *ConsumerTargetChanged) group() string { return e.Group }

func (e *ConsumerTargetChanged) apply(g *edit) {
	if g.Consumer == nil {
		return
	}
	c := g.consumer()
	c.TargetEpoch, c.Assignor = e.Epoch, e.Assignor
	for m, a := range e.Changed {
		c.Target[m] = a.normal()
	}
}
