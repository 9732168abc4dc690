package groups

import "fmt"

// ConsumerMemberLeft says that a member is gone, with its target: it left, or was fenced.
type ConsumerMemberLeft struct {
	Group  string `msgpack:"g" json:"group"`
	Time   int64  `msgpack:"t" json:"time"`
	Member string `msgpack:"m" json:"member"`
}

func init() { register(func() Fact { return new(ConsumerMemberLeft) }) }

// EventName implements Fact.
func (*ConsumerMemberLeft) EventName() string { return "ConsumerMemberLeft" }

func (e *ConsumerMemberLeft) String() string {
	return fmt.Sprintf("member %q of group %q is gone", e.Member, e.Group)
}

func (e *ConsumerMemberLeft) group() string { return e.Group }

func (e *ConsumerMemberLeft) apply(g *edit) {
	if g.Consumer == nil {
		return
	}
	c := g.consumer()
	delete(c.Members, e.Member)
	delete(c.Target, e.Member)
	g.empty(e.Time)
}
