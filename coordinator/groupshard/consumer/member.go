package consumer

import (
	"slices"

	"kaas.dev/kaas/projections/groups"
)

// equal reports whether two states of a member are the same; nil is none.
func equal(a, b *groups.ConsumerMember) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.Epoch == b.Epoch && a.PreviousEpoch == b.PreviousEpoch && a.State == b.State &&
		equalString(a.InstanceID, b.InstanceID) && equalString(a.RackID, b.RackID) &&
		a.ClientID == b.ClientID && a.Host == b.Host && a.RebalanceTimeout == b.RebalanceTimeout &&
		equalString(a.ServerAssignor, b.ServerAssignor) && !resubscribed(a, b) && equalString(a.Regex, b.Regex) &&
		same(a.Assigned, b.Assigned) && same(a.Revoking, b.Revoking) && equalSession(a.Classic, b.Classic)
}

func equalString(a, b *string) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func equalSession(a, b *groups.ClassicSession) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.SessionTimeout == b.SessionTimeout && slices.EqualFunc(a.Protocols, b.Protocols, equalProtocol)
}

func equalProtocol(a, b groups.Protocol) bool {
	return a.Name == b.Name && slices.Equal(a.Metadata, b.Metadata)
}

// updated returns the member as it says now that it is.
func updated(m *groups.ConsumerMember, r *HeartbeatRequest) *groups.ConsumerMember {
	u := *m
	u.ClientID, u.Host, u.Classic = r.ClientID, r.Host, nil
	u.InstanceID = or(r.InstanceID, m.InstanceID)
	u.RackID = or(r.RackID, m.RackID)
	u.ServerAssignor = or(r.ServerAssignor, m.ServerAssignor)
	u.Principal = r.Principal
	if u.Regex = or(r.Regex, m.Regex); patternOf(&u) == "" {
		u.Regex, u.Principal = nil, ""
	}
	if r.RebalanceTimeout >= 0 {
		u.RebalanceTimeout = r.RebalanceTimeout
	}
	if r.Topics != nil {
		u.Topics = normal(r.Topics)
	}
	return &u
}

func or(said, known *string) *string {
	if said != nil {
		return said
	}
	return known
}
