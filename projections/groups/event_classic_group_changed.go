package groups

import (
	"cmp"
	"fmt"
	"slices"
)

// ClassicGroupChanged says that the group's membership under the classic protocol is this,
// as of the end of a rebalance. It ends a membership under the other.
type ClassicGroupChanged struct {
	Group string  `msgpack:"g" json:"group"`
	Time  int64   `msgpack:"t" json:"time"`
	State Classic `msgpack:"s" json:"state"`
}

func init() { register(func() Fact { return new(ClassicGroupChanged) }) }

// EventName implements Fact.
func (*ClassicGroupChanged) EventName() string { return "ClassicGroupChanged" }

func (e *ClassicGroupChanged) String() string {
	s := fmt.Sprintf("group %q is at generation %d with %d member(s)", e.Group, e.State.Generation, len(e.State.Members))
	if e.State.Protocol != "" {
		s += fmt.Sprintf(", assignor %q", e.State.Protocol)
	}
	return s
}

func (e *ClassicGroupChanged) group() string { return e.Group }

func (e *ClassicGroupChanged) apply(g *edit) {
	c := e.State
	c.normalize()
	g.Classic, g.Consumer, g.own.consumer = &c, nil, false
	g.EmptySince = 0
	g.empty(e.Time)
}

// normalize gives equal memberships one form: members by ID, nil for nothing.
func (c *Classic) normalize() {
	slices.SortStableFunc(c.Members, func(a, b ClassicMember) int { return cmp.Compare(a.ID, b.ID) })
	c.Members = slices.CompactFunc(c.Members, func(a, b ClassicMember) bool { return a.ID == b.ID })
	if len(c.Members) == 0 {
		c.Members = nil
	}
	for i := range c.Members {
		m := &c.Members[i]
		normalizeProtocols(&m.Protocols)
		if len(m.Assignment) == 0 {
			m.Assignment = nil
		}
	}
}

func normalizeProtocols(ps *[]Protocol) {
	if len(*ps) == 0 {
		*ps = nil
	}
	for i := range *ps {
		if p := &(*ps)[i]; len(p.Metadata) == 0 {
			p.Metadata = nil
		}
	}
}
