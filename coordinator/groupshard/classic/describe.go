package classic

// Description is what DescribeGroups and ListGroups tell of a group.
type Description struct {
	State        string
	ProtocolType string // empty if the group never had members
	Protocol     string // while Stable
	Generation   int32
	Leader       string
	Members      []MemberDescription // in the order they came
}

// MemberDescription is what DescribeGroups tells of a member.
type MemberDescription struct {
	MemberID       string
	InstanceID     *string
	ClientID, Host string
	Metadata       []byte // while the group is Stable
	Assignment     []byte // likewise
}

// Describe returns what is to be told of the group. While it rebalances, the members'
// metadata and assignments are of no generation, and are left out.
func (g *Group) Describe() Description {
	d := Description{
		State:        g.State(),
		ProtocolType: g.protocolType,
		Generation:   g.generation,
		Leader:       g.leader,
	}
	if g.state == stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.members {
		o := MemberDescription{MemberID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host}
		if g.state == stable {
			o.Metadata, o.Assignment = m.metadata(g.protocol), m.Assignment
		}
		d.Members = append(d.Members, o)
	}
	return d
}
