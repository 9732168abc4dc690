package consumer

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections/groups"
)

// JoinRequest is a JoinGroup to a group that has members of this protocol.
type JoinRequest struct {
	GroupID          string
	MemberID         string // empty: the member is given NewID
	NewID            string // an ID that no member has
	InstanceID       *string
	ClientID, Host   string
	ProtocolType     string
	Protocols        []groups.Protocol
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	RequireKnownID   bool // version 4 and later
}

// JoinResponse is its answer. No member leads: each is told its assignment when it syncs,
// for which it has its rebalance timeout.
type JoinResponse struct {
	MemberID   string // also with MEMBER_ID_REQUIRED
	Generation int32  // the member's epoch
	Protocol   string
	Replaced   string // as of a heartbeat
}

// ClassicJoin decides what a JoinGroup changes. The group has members of this protocol. Session
// timeouts are for the caller to check.
func ClassicJoin(g *groups.Group, t Topics, cfg Config, now time.Time, r JoinRequest) ([]groups.Fact, JoinResponse, error) {
	d := newDraft(g, r.GroupID, t, cfg, now)
	known := r.MemberID != ""
	if !known {
		r.MemberID = r.NewID
	}
	before, err := d.findClassic(&r, known)
	if err != nil {
		return nil, JoinResponse{}, err
	}
	if err := d.checkProtocols(&r); err != nil {
		return nil, JoinResponse{}, err
	}
	if r.RequireKnownID && !known && r.InstanceID == nil {
		return nil, JoinResponse{MemberID: r.MemberID, Generation: -1}, fmt.Errorf("group %q: %w", d.id, kerr.MemberIDRequired)
	}
	meta, err := subscription(r.Protocols)
	if err != nil {
		return nil, JoinResponse{}, fmt.Errorf("group %q: %w: %w", d.id, err, kerr.InconsistentGroupProtocol)
	}
	m := *before
	m.ClientID, m.Host, m.RebalanceTimeout = r.ClientID, r.Host, r.RebalanceTimeout
	m.InstanceID, m.RackID = or(r.InstanceID, m.InstanceID), or(meta.Rack, m.RackID)
	m.Topics, m.Regex, m.Principal = normal(meta.Topics), nil, ""
	m.Classic = &groups.ClassicSession{SessionTimeout: r.SessionTimeout, Protocols: r.Protocols}
	d.member = &m
	if err := d.checkSize(); err != nil {
		return nil, JoinResponse{}, err
	}
	d.advance(before, ownedBy(meta, t))
	out := JoinResponse{MemberID: m.ID, Generation: d.member.Epoch, Protocol: r.Protocols[0].Name}
	if len(d.gone) > 0 {
		out.Replaced = d.gone[0]
	}
	return d.facts(), out, nil
}

// findClassic returns the state of the member that joins: a new one, or the one of the
// static member whose place it takes. A static member that brings no ID takes its place
// from whoever has it.
func (d *draft) findClassic(r *JoinRequest, known bool) (*groups.ConsumerMember, error) {
	if r.InstanceID == nil {
		if m := d.was.Members[r.MemberID]; m != nil {
			return m, nil
		}
		return d.newcomer(r.MemberID)
	}
	m := d.static(*r.InstanceID)
	switch {
	case known:
		return d.holder(r.MemberID, r.InstanceID)
	case m == nil:
		return d.newcomer(r.MemberID)
	}
	return d.replace(m, r.MemberID), nil
}

// checkProtocols reads the subscription of a member whose protocols fit the other classic
// members'.
func (d *draft) checkProtocols(r *JoinRequest) error {
	others := slices.DeleteFunc(slices.Collect(d.members()), func(m *groups.ConsumerMember) bool { return m.ID == r.MemberID })
	fits := func(p groups.Protocol) bool { return supportedByAll(others, p.Name) }
	if r.ProtocolType != embedded || !slices.ContainsFunc(r.Protocols, fits) {
		return fmt.Errorf("group %q and protocols of type %q: %w", d.id, r.ProtocolType, kerr.InconsistentGroupProtocol)
	}
	return nil
}

// holder returns the member that has an ID, and the instance ID if one is given.
func (d *draft) holder(id string, instance *string) (*groups.ConsumerMember, error) {
	m := d.was.Members[id]
	if instance != nil {
		m = d.static(*instance)
	}
	switch {
	case m == nil:
		return nil, fmt.Errorf("member %q of group %q: %w", id, d.id, kerr.UnknownMemberID)
	case m.ID != id:
		return nil, fmt.Errorf("instance %q of group %q is member %q by now: %w", *instance, d.id, m.ID, kerr.FencedInstanceID)
	}
	return m, nil
}

// current returns a member that speaks the classic protocol and is at a generation.
func (d *draft) current(id string, instance *string, generation int32) (*groups.ConsumerMember, error) {
	m, err := d.holder(id, instance)
	switch {
	case err != nil:
		return nil, err
	case m.Classic == nil:
		return nil, fmt.Errorf("member %q of group %q does not speak the classic protocol: %w", id, d.id, kerr.UnknownMemberID)
	case m.Epoch != generation:
		return nil, stale(m, generation)
	}
	return m, nil
}

// SyncRequest is a SyncGroup to a group that has members of this protocol. What it assigns
// to others is of no account: there are no leaders.
type SyncRequest struct {
	MemberID               string
	InstanceID             *string
	Generation             int32
	ProtocolType, Protocol *string // nil: not said
}

// ClassicSync returns the protocol and the assignment of a classic member. With
// REBALANCE_IN_PROGRESS the member has its rebalance timeout from now on, unless that runs
// already, to join anew.
func ClassicSync(g *groups.Group, t Topics, r SyncRequest) (protocol string, assignment []byte, err error) {
	d := newDraft(g, g.ID, t, Config{}, time.Time{})
	m, err := d.current(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return "", nil, err
	}
	protocol = m.Classic.Protocols[0].Name
	switch {
	case r.ProtocolType != nil && *r.ProtocolType != embedded, r.Protocol != nil && *r.Protocol != protocol:
		return "", nil, fmt.Errorf("member %q of group %q joined with %q: %w", m.ID, g.ID, protocol, kerr.InconsistentGroupProtocol)
	case m.Epoch < d.epoch && m.State != groups.UnrevokedPartitions:
		return "", nil, fmt.Errorf("member %q of group %q: %w", m.ID, g.ID, kerr.RebalanceInProgress)
	}
	meta, err := subscription(m.Classic.Protocols)
	if err != nil {
		return "", nil, fmt.Errorf("member %q of group %q: %w: %w", m.ID, g.ID, err, kerr.InconsistentGroupProtocol)
	}
	return protocol, pack(m.Assigned, meta.Version, t), nil
}

// ClassicHeartbeat answers the Heartbeat of a classic member. It is REBALANCE_IN_PROGRESS,
// with the consequence that it has at a sync, while the member should join anew: there is a
// new epoch, or will be since the topics have changed; it has something to give up; or what
// it waits for is free.
func ClassicHeartbeat(g *groups.Group, t Topics, cfg Config, memberID string, instanceID *string, generation int32) error {
	d := newDraft(g, g.ID, t, cfg, time.Time{})
	m, err := d.current(memberID, instanceID, generation)
	if err != nil {
		return err
	}
	if m.Epoch < d.epoch || m.State == groups.UnrevokedPartitions || d.rehash(false) ||
		m.State == groups.UnreleasedPartitions && !d.waits(m) {
		return fmt.Errorf("member %q of group %q: %w", m.ID, g.ID, kerr.RebalanceInProgress)
	}
	return nil
}

// waits reports whether others have anything that a member is to have.
func (d *draft) waits(m *groups.ConsumerMember) bool {
	missing := groups.Assignment{}
	for id, ps := range d.target(m.ID) {
		put(missing, id, without(ps, m.Assigned[id]))
	}
	d.member = m
	return len(d.taken(missing)) > 0
}

// LeaveMember is one of those that a LeaveGroup is about.
type LeaveMember struct {
	MemberID   string // empty: whoever has the instance ID
	InstanceID *string
}

// ClassicLeave decides what a LeaveGroup changes, and what it answers for each of the members.
func ClassicLeave(g *groups.Group, t Topics, cfg Config, now time.Time, members []LeaveMember) ([]groups.Fact, []error) {
	d := newDraft(g, g.ID, t, cfg, now)
	errs := make([]error, len(members))
	var gone []string
	for i, l := range members {
		if l.MemberID == "" && l.InstanceID != nil {
			if m := d.static(*l.InstanceID); m != nil {
				l.MemberID = m.ID
			}
		}
		if _, errs[i] = d.holder(l.MemberID, l.InstanceID); errs[i] == nil && !slices.Contains(gone, l.MemberID) {
			gone = append(gone, l.MemberID)
		}
	}
	if len(gone) == 0 {
		return nil, errs
	}
	d.remove(gone...)
	return d.facts(), errs
}
