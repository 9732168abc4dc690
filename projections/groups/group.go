package groups

import (
	"fmt"
	"time"

	"kaas.dev/kaas/projections"
)

// Group is what is committed of one consumer group: an immutable value. It has offsets,
// and members of at most one of the two protocols. A group that has none of offsets,
// pending offsets and a membership is not in the view.
type Group struct {
	ID      string
	Offsets Offsets
	// Pending are the offsets of open transactions, by producer ID (KIP-98).
	Pending map[int64]Pending
	// Classic is the membership under the classic protocol; nil if the group never had
	// any, or has gone over to the other protocol.
	Classic *Classic
	// Consumer is the membership under the next-generation protocol (KIP-848), nil likewise.
	Consumer *Consumer
	// EmptySince is when the group lost its last member, in milliseconds since 1970, and
	// 0 while it has any. A group that never had members has the time when it came to be,
	// which is that of its first commit.
	EmptySince int64
}

// Partition is a partition of a topic by identity.
type Partition struct {
	Topic projections.TopicID
	Index int32
}

// Offsets are committed offsets by topic and partition. Immutable.
type Offsets map[projections.TopicID]map[int32]Offset

// Offset is one committed offset.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // -1: not said
	Metadata    string
	// Committed is when, Expires is until when it is kept whatever the group's retention
	// says (OffsetCommit 2 to 4), -1 if that was not asked for. Milliseconds since 1970.
	Committed, Expires int64
}

// At returns the committed offset of a partition.
func (g *Group) At(topic projections.TopicID, partition int32) (Offset, bool) {
	o, ok := g.Offsets[topic][partition]
	return o, ok
}

// Unstable reports whether an open transaction has staged an offset of the partition, so
// that who wants a stable one has to wait (KIP-447). Such an offset does not expire.
func (g *Group) Unstable(topic projections.TopicID, partition int32) bool {
	for _, p := range g.Pending {
		if _, ok := p.Offsets[topic][partition]; ok {
			return true
		}
	}
	return false
}

// HasMembers reports whether the group has members of either protocol.
func (g *Group) HasMembers() bool {
	return g.Classic != nil && len(g.Classic.Members) > 0 || g.Consumer != nil && len(g.Consumer.Members) > 0
}

// void reports whether there is nothing of the group, so that it is not in a view.
func (g *Group) void() bool {
	return len(g.Offsets) == 0 && len(g.Pending) == 0 && g.Classic == nil && g.Consumer == nil
}

// Pending are the offsets that a transaction will commit, if it does. Where a plain
// commit came after the staging it is that one's offset, for the later wins.
type Pending struct {
	Epoch   int16 // of the producer
	Offsets Offsets
}

// Classic is the membership of a group under the classic protocol, as of the end of its
// last rebalance.
type Classic struct {
	ProtocolType string          `msgpack:"t" json:"protocolType"` // "consumer", "connect", …
	Generation   int32           `msgpack:"g" json:"generation"`
	Protocol     string          `msgpack:"p,omitempty" json:"protocol"` // the assignor that was chosen; empty without members
	Leader       string          `msgpack:"l,omitempty" json:"leader"`   // member ID; empty without members
	Members      []ClassicMember `msgpack:"m,omitempty" json:"members"`  // by ID
}

// ClassicMember is a member under the classic protocol.
type ClassicMember struct {
	ID               string        `msgpack:"i" json:"id"`
	InstanceID       *string       `msgpack:"s,omitempty" json:"instanceId,omitempty"` // of a static member (KIP-345)
	ClientID         string        `msgpack:"c" json:"clientId"`
	Host             string        `msgpack:"h" json:"host"`
	SessionTimeout   time.Duration `msgpack:"o" json:"sessionTimeout"`
	RebalanceTimeout time.Duration `msgpack:"r" json:"rebalanceTimeout"`
	Protocols        []Protocol    `msgpack:"p" json:"protocols"`            // in the member's order of preference
	Assignment       []byte        `msgpack:"a,omitempty" json:"assignment"` // opaque
}

// Protocol is an assignor that a member supports, with its opaque subscription.
type Protocol struct {
	Name     string `msgpack:"n" json:"name"`
	Metadata []byte `msgpack:"m" json:"metadata"`
}

// Consumer is the membership of a group under the next-generation protocol.
type Consumer struct {
	// Epoch rises whenever members, subscriptions or topics change what there is to be
	// assigned; TargetEpoch is that of the newest target.
	Epoch, TargetEpoch int32
	Assignor           string // of the newest target
	// TopicsHash is of the subscribed topics as they were when Epoch was last raised for
	// them: identities, and numbers of partitions.
	TopicsHash uint64
	Members    map[string]*ConsumerMember // by ID
	// Target is what each member is to have in the end, by member ID.
	Target Targets
}

// MemberState says where a member stands between what it has and what it is to have.
type MemberState int8

// The states of a member (KIP-848).
const (
	Stable               MemberState = 0 // has what the target of its epoch gives it
	UnrevokedPartitions  MemberState = 1 // has yet to say that it gave up Revoking
	UnreleasedPartitions MemberState = 2 // waits for others to give up partitions of its target
)

func (s MemberState) String() string {
	switch s {
	case Stable:
		return "stable"
	case UnrevokedPartitions:
		return "revoking"
	case UnreleasedPartitions:
		return "waiting"
	}
	return fmt.Sprintf("in state %d", int8(s))
}

// ConsumerMember is a member under the next-generation protocol.
type ConsumerMember struct {
	ID               string        `msgpack:"i" json:"id"`
	InstanceID       *string       `msgpack:"s,omitempty" json:"instanceId,omitempty"`
	RackID           *string       `msgpack:"k,omitempty" json:"rackId,omitempty"`
	ClientID         string        `msgpack:"c" json:"clientId"`
	Host             string        `msgpack:"h" json:"host"`
	RebalanceTimeout time.Duration `msgpack:"t" json:"rebalanceTimeout"`
	ServerAssignor   *string       `msgpack:"a,omitempty" json:"serverAssignor,omitempty"`
	Topics           []string      `msgpack:"o,omitempty" json:"topics"`          // subscribed, ascending
	Regex            *string       `msgpack:"x,omitempty" json:"regex,omitempty"` // subscribed (RE2)
	// Principal is who subscribes by the pattern: it stands for what he may describe. Empty
	// without a pattern, and without an authorizer.
	Principal string `msgpack:"u,omitempty" json:"principal,omitempty"`
	// Epoch is the member's, PreviousEpoch the one before it, in which it may still commit.
	Epoch         int32       `msgpack:"e" json:"epoch"`
	PreviousEpoch int32       `msgpack:"p" json:"previousEpoch"`
	State         MemberState `msgpack:"z,omitempty" json:"state"`
	Assigned      Assignment  `msgpack:"g,omitempty" json:"assigned"`
	Revoking      Assignment  `msgpack:"r,omitempty" json:"revoking"` // to be given up first
	// Classic is set for a member that speaks the classic protocol to a group of this one.
	Classic *ClassicSession `msgpack:"l,omitempty" json:"classic,omitempty"`
}

// ClassicSession is what a classic member of a next-generation group has beside.
type ClassicSession struct {
	SessionTimeout time.Duration `msgpack:"s" json:"sessionTimeout"`
	Protocols      []Protocol    `msgpack:"p" json:"protocols"`
}
