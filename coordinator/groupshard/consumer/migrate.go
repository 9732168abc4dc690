package consumer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// upgrade makes a classic membership the draft's: its members stay, speak the classic
// protocol, and have what they were assigned last. Members of both kinds may be in the
// group from then on.
func (d *draft) upgrade(c *groups.Classic) error {
	refuse := func(why string, args ...any) error {
		return fmt.Errorf("classic group %q cannot be upgraded, %s: %w", d.id, fmt.Sprintf(why, args...), kerr.GroupIDNotFound)
	}
	switch {
	case !d.cfg.Upgrade:
		return refuse("the migration policy forbids it")
	case c.ProtocolType != embedded:
		return refuse("its protocol type is %q", c.ProtocolType)
	case d.cfg.MaxSize > 0 && len(c.Members) > d.cfg.MaxSize:
		return refuse("it has %d members, of at most %d", len(c.Members), d.cfg.MaxSize)
	}
	was := &groups.Consumer{
		Epoch: c.Generation, TargetEpoch: c.Generation,
		Members: map[string]*groups.ConsumerMember{}, Target: groups.Targets{},
	}
	for _, m := range c.Members {
		n, err := d.modern(m, c.Generation)
		if err != nil {
			return refuse("member %q: %v", m.ID, err)
		}
		was.Members[m.ID], was.Target[m.ID] = n, n.Assigned
	}
	d.begin(was)
	d.upgraded = true
	return nil
}

// modern is a classic member as one of this protocol.
func (d *draft) modern(m groups.ClassicMember, generation int32) (*groups.ConsumerMember, error) {
	meta, err := subscription(m.Protocols)
	if err != nil {
		return nil, err
	}
	assigned, err := unpack(m.Assignment, d.topics)
	if err != nil {
		return nil, err
	}
	return &groups.ConsumerMember{
		ID: m.ID, InstanceID: m.InstanceID, RackID: meta.Rack, ClientID: m.ClientID, Host: m.Host,
		RebalanceTimeout: m.RebalanceTimeout, Topics: normal(meta.Topics),
		Epoch: generation, PreviousEpoch: generation, Assigned: assigned,
		Classic: &groups.ClassicSession{SessionTimeout: m.SessionTimeout, Protocols: m.Protocols},
	}, nil
}

// upgradeFacts are those of every member, and of what each is to have.
func (d *draft) upgradeFacts() []groups.Fact {
	var out []groups.Fact
	targets := groups.Targets{}
	for _, m := range slices.SortedFunc(d.members(), byIdentity) {
		targets[m.ID] = d.target(m.ID)
		out = append(out, &groups.ConsumerMemberChanged{Group: d.id, Member: *m})
	}
	return append(out, &groups.ConsumerTargetChanged{Group: d.id, Epoch: d.targetEpoch, Assignor: d.assignor, Changed: targets})
}

// downgrade returns the group's membership as a classic one, once only classic members are
// left. It is rebalanced at once: nobody has what those who left had.
func (d *draft) downgrade() (c groups.Classic, ok bool) {
	members := slices.SortedFunc(d.members(), func(a, b *groups.ConsumerMember) int { return strings.Compare(a.ID, b.ID) })
	classic := func(m *groups.ConsumerMember) bool { return m.Classic != nil }
	if !d.cfg.Downgrade || len(members) == 0 || d.cfg.ClassicMaxSize > 0 && len(members) > d.cfg.ClassicMaxSize ||
		slices.ContainsFunc(members, func(m *groups.ConsumerMember) bool { return !classic(m) }) {
		return c, false
	}
	c = groups.Classic{ProtocolType: embedded, Generation: d.epoch, Leader: members[0].ID, Protocol: elect(members)}
	for _, m := range members {
		meta, err := subscription(m.Classic.Protocols)
		if err != nil {
			return c, false
		}
		c.Members = append(c.Members, groups.ClassicMember{
			ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host,
			SessionTimeout: m.Classic.SessionTimeout, RebalanceTimeout: m.RebalanceTimeout,
			Protocols: m.Classic.Protocols, Assignment: pack(has(m), meta.Version, d.topics),
		})
	}
	return c, true
}

// has is what a member may own: what it is to give up too, until it has.
func has(m *groups.ConsumerMember) groups.Assignment {
	if len(m.Revoking) == 0 {
		return m.Assigned
	}
	out := maps.Clone(m.Revoking)
	for id, ps := range m.Assigned {
		out[id] = either(out[id], ps)
	}
	return out
}

// elect chooses the classic protocol: each member votes for the first on its list that all
// support, and of equal votes the first member's earlier one wins.
func elect(members []*groups.ConsumerMember) string {
	votes := map[string]int{}
	for _, m := range members {
		i := slices.IndexFunc(m.Classic.Protocols, func(p groups.Protocol) bool { return supportedByAll(members, p.Name) })
		if i >= 0 {
			votes[m.Classic.Protocols[i].Name]++
		}
	}
	best := ""
	for _, p := range members[0].Classic.Protocols {
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}

// supportedByAll reports whether all members that speak the classic protocol support one.
func supportedByAll(members []*groups.ConsumerMember, name string) bool {
	for _, m := range members {
		if m.Classic != nil && !slices.ContainsFunc(m.Classic.Protocols, func(p groups.Protocol) bool { return p.Name == name }) {
			return false
		}
	}
	return true
}
