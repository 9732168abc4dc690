package main

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// shardGroups is a folded shard stream as dump shows it.
type shardGroups struct {
	Groups []groupState `json:"groups"`
}

type groupState struct {
	place
	ID           string         `json:"id"`
	Protocol     string         `json:"protocol"` // classic, consumer, or none for one that only has offsets
	State        string         `json:"state"`
	ProtocolType string         `json:"protocol_type,omitempty"`
	Epoch        *int32         `json:"epoch,omitempty"` // or generation
	TargetEpoch  *int32         `json:"target_epoch,omitempty"`
	Assignor     string         `json:"assignor,omitempty"`
	EmptySince   *time.Time     `json:"empty_since,omitempty"`
	Members      []memberState  `json:"members,omitempty"`
	Offsets      []offsetState  `json:"offsets,omitempty"`
	Staged       []pendingState `json:"staged,omitempty"`
}

type memberState struct {
	ID         string             `json:"id"`
	InstanceID *string            `json:"instance_id,omitempty"`
	ClientID   string             `json:"client_id"`
	Host       string             `json:"host"`
	Epoch      *int32             `json:"epoch,omitempty"` // of the next-generation protocol
	State      string             `json:"state,omitempty"` // likewise
	Classic    bool               `json:"classic,omitempty"`
	Topics     []string           `json:"subscribed,omitempty"`
	Regex      *string            `json:"subscribed_regex,omitempty"`
	Assigned   map[string][]int32 `json:"assigned,omitempty"`
	Revoking   map[string][]int32 `json:"revoking,omitempty"`
	Target     map[string][]int32 `json:"target,omitempty"`
}

type offsetState struct {
	Topic       string     `json:"topic"`
	Partition   int32      `json:"partition"`
	Offset      int64      `json:"offset"`
	LeaderEpoch int32      `json:"leader_epoch"`
	Metadata    string     `json:"metadata,omitempty"`
	Committed   *time.Time `json:"committed,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"`
}

type pendingState struct {
	Producer int64         `json:"producer_id"`
	Epoch    int16         `json:"producer_epoch"`
	Offsets  []offsetState `json:"offsets"`
}

func showShard(s *groups.Shard, shard int32, names history.Namer) shardGroups {
	out := shardGroups{Groups: []groupState{}}
	for g := range s.Groups() {
		out.Groups = append(out.Groups, showGroup(g, shard, names))
	}
	return out
}

func showGroup(g *groups.Group, shard int32, names history.Namer) groupState {
	s := groupState{place: place{Shard: &shard}, ID: g.ID, Protocol: "none", State: "Empty", Offsets: showOffsets(g.Offsets, names)}
	if g.EmptySince != 0 {
		s.EmptySince = new(at(g.EmptySince))
	}
	for _, id := range slices.Sorted(maps.Keys(g.Pending)) {
		p := g.Pending[id]
		s.Staged = append(s.Staged, pendingState{id, p.Epoch, showOffsets(p.Offsets, names)})
	}
	switch {
	case g.Classic != nil:
		s.classic(g.Classic)
	case g.Consumer != nil:
		s.consumer(g.Consumer, names)
	}
	return s
}

func (s *groupState) classic(c *groups.Classic) {
	s.Protocol, s.ProtocolType, s.Epoch, s.Assignor = "classic", c.ProtocolType, &c.Generation, c.Protocol
	if len(c.Members) > 0 {
		s.State = "Stable"
	}
	for _, m := range c.Members {
		ms := memberState{ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host, Classic: true}
		if c.ProtocolType == "consumer" {
			ms.Assigned = consumerAssignment(m.Assignment)
		}
		s.Members = append(s.Members, ms)
	}
}

// consumerAssignment reads what consumers put into an assignment, which is theirs to
// know; nil if it is something else.
func consumerAssignment(b []byte) map[string][]int32 {
	var a kmsg.ConsumerMemberAssignment
	if len(b) == 0 || a.ReadFrom(b) != nil {
		return nil
	}
	return assignmentLists(&a)
}

func assignmentLists(a *kmsg.ConsumerMemberAssignment) map[string][]int32 {
	out := make(map[string][]int32, len(a.Topics))
	for _, t := range a.Topics {
		out[t.Topic] = append(out[t.Topic], t.Partitions...)
	}
	return out
}

func (s *groupState) consumer(c *groups.Consumer, names history.Namer) {
	s.Protocol, s.ProtocolType, s.Epoch, s.TargetEpoch, s.Assignor = "consumer", "consumer", &c.Epoch, &c.TargetEpoch, c.Assignor
	s.State = consumerState(c)
	for _, id := range slices.Sorted(maps.Keys(c.Members)) {
		m := c.Members[id]
		s.Members = append(s.Members, memberState{ID: m.ID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.Host,
			Epoch: &m.Epoch, State: m.State.String(), Classic: m.Classic != nil, Topics: m.Topics, Regex: m.Regex,
			Assigned: named(m.Assigned, names), Revoking: named(m.Revoking, names), Target: named(c.Target[id], names)})
	}
}

// consumerState is what Kafka's tools call it.
func consumerState(c *groups.Consumer) string {
	switch {
	case len(c.Members) == 0:
		return "Empty"
	case c.Epoch > c.TargetEpoch:
		return "Assigning"
	}
	for _, m := range c.Members {
		if m.State != groups.Stable || m.Epoch != c.TargetEpoch {
			return "Reconciling"
		}
	}
	return "Stable"
}

func named(a groups.Assignment, names history.Namer) map[string][]int32 {
	if len(a) == 0 {
		return nil
	}
	out := make(map[string][]int32, len(a))
	for id, ps := range a {
		out[names(id)] = ps
	}
	return out
}

// showOffsets are offsets by the name of their topic and by partition.
func showOffsets(o groups.Offsets, names history.Namer) (out []offsetState) {
	for id, t := range o {
		for p, v := range t {
			s := offsetState{Topic: names(id), Partition: p, Offset: v.Offset, LeaderEpoch: v.LeaderEpoch, Metadata: v.Metadata, Committed: new(at(v.Committed))}
			if v.Expires >= 0 {
				s.Expires = new(at(v.Expires))
			}
			out = append(out, s)
		}
	}
	sortOffsets(out)
	return out
}

func sortOffsets(os []offsetState) {
	slices.SortFunc(os, func(a, b offsetState) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

func at(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }
