package consumer

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

const (
	// MostBytes bounds what the members of a group may say of themselves. It is what those of
	// a classic group may.
	MostBytes = 32 << 20
	// ownWeight is what a member takes besides what it says.
	ownWeight = 1 << 10
	// nameWeight is what a name takes besides its text.
	nameWeight = 16
)

// weight is what a member takes by what it says, in bytes. What it is assigned is not its own
// choice, and does not count: it must come to that whatever others have.
func weight(m *groups.ConsumerMember) int64 {
	if m == nil {
		return 0
	}
	n := ownWeight + len(m.ID) + len(m.ClientID) + len(m.Host) + len(m.Principal)
	for _, s := range []*string{m.InstanceID, m.RackID, m.Regex, m.ServerAssignor} {
		if s != nil {
			n += len(*s)
		}
	}
	for _, t := range m.Topics {
		n += nameWeight + len(t)
	}
	if m.Classic != nil {
		for i := range m.Classic.Protocols {
			n += nameWeight + len(m.Classic.Protocols[i].Name) + len(m.Classic.Protocols[i].Metadata)
		}
	}
	return int64(n)
}

// Bytes is about what the members of a group take in memory; it may be nil.
func Bytes(c *groups.Consumer) (n int64) {
	if c == nil {
		return 0
	}
	for _, m := range c.Members {
		n += weight(m)
	}
	return n
}

// Growth is by how many bytes facts make a group larger.
func Growth(c *groups.Consumer, fs []groups.Fact) (n int64) {
	was := func(member string) int64 {
		if c == nil {
			return 0
		}
		return weight(c.Members[member])
	}
	for _, f := range fs {
		switch f := f.(type) {
		case *groups.ConsumerMemberChanged:
			n += weight(&f.Member) - was(f.Member.ID)
		case *groups.ConsumerMemberLeft:
			n -= was(f.Member)
		}
	}
	return n
}

// checkSize refuses a member that would make its group too large. One that grows by nothing
// goes on.
func (d *draft) checkSize() error {
	grown := weight(d.member) - weight(d.was.Members[d.member.ID])
	for _, id := range d.gone {
		grown -= weight(d.was.Members[id])
	}
	if grown > 0 && Bytes(d.was)+grown > MostBytes {
		return fmt.Errorf("the members of group %q say too much of themselves: %w", d.id, kerr.GroupMaxSizeReached)
	}
	return nil
}
