package groups

import (
	"fmt"
	"slices"
)

// ConsumerMemberChanged says that a member joined, or that any of what it says or has
// changed. It makes the next-generation membership if there is none.
type ConsumerMemberChanged struct {
	Group  string         `msgpack:"g" json:"group"`
	Member ConsumerMember `msgpack:"m" json:"member"`
}

func init() { register(func() Fact { return new(ConsumerMemberChanged) }) }

// EventName implements Fact.
func (*ConsumerMemberChanged) EventName() string { return "ConsumerMemberChanged" }

func (e *ConsumerMemberChanged) String() string {
	m := &e.Member
	s := fmt.Sprintf("member %q of group %q is %s at epoch %d with %d partition(s)", m.ID, e.Group, m.State, m.Epoch, m.Assigned.Len())
	if n := m.Revoking.Len(); n > 0 {
		s += fmt.Sprintf(" and %d to give up", n)
	}
	return s
}

func (e *ConsumerMemberChanged) group() string { return e.Group }

func (e *ConsumerMemberChanged) apply(g *edit) {
	m := e.Member
	m.normalize()
	g.consumer().Members[m.ID] = &m
}

// normalize gives equal members one form: lists in order, nil for nothing.
func (m *ConsumerMember) normalize() {
	slices.Sort(m.Topics)
	if m.Topics = slices.Compact(m.Topics); len(m.Topics) == 0 {
		m.Topics = nil
	}
	m.Assigned, m.Revoking = m.Assigned.normal(), m.Revoking.normal()
	if m.Classic != nil {
		normalizeProtocols(&m.Classic.Protocols)
	}
}
