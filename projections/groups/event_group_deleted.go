package groups

import "fmt"

// GroupDeleted says that the group is gone, with its offsets, staged ones too, and its
// membership.
type GroupDeleted struct {
	Group string `msgpack:"g" json:"group"`
}

func init() { register(func() Fact { return new(GroupDeleted) }) }

// EventName implements Fact.
func (*GroupDeleted) EventName() string { return "GroupDeleted" }

func (e *GroupDeleted) String() string { return fmt.Sprintf("group %q deleted", e.Group) }

func (e *GroupDeleted) group() string { return e.Group }

func (e *GroupDeleted) apply(g *edit) { g.clear() }
