package groups

import (
	"time"

	"kaas.dev/kaas/projections"
)

// Group is what is committed of one consumer group: an immutable value. It has offsets,
// and members of at most one of the two protocols.
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
	// 0 while it has any. A group that never had members has the time of its first commit.
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

// Pending are the offsets that a transaction will commit, if it does.
type Pending struct {
	Epoch   int16 // of the producer
	Offsets Offsets
}

// Classic is the membership of a group under the classic protocol, as of the end of its
// last rebalance.
type Classic struct {
	ProtocolType string // "consumer", "connect", …
	Generation   int32
	Protocol     string          // the assignor that was chosen; empty without members
	Leader       string          // member ID; empty without members
	Members      []ClassicMember // by ID
}

// ClassicMember is a member under the classic protocol.
type ClassicMember struct {
	ID               string
	InstanceID       *string // of a static member (KIP-345)
	ClientID, Host   string
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration
	Protocols        []Protocol // in the member's order of preference
	Assignment       []byte     // opaque
}

// Protocol is an assignor that a member supports, with its opaque subscription.
type Protocol struct {
	Name     string
	Metadata []byte
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
	Target map[string]Assignment
}

// Assignment are partitions by topic, each list ascending.
type Assignment map[projections.TopicID][]int32

// MemberState says where a member stands between what it has and what it is to have.
type MemberState int8

// The states of a member (KIP-848).
const (
	Stable               MemberState = 0 // has what the target of its epoch gives it
	UnrevokedPartitions  MemberState = 1 // has yet to say that it gave up Revoking
	UnreleasedPartitions MemberState = 2 // waits for others to give up partitions of its target
)

// ConsumerMember is a member under the next-generation protocol.
type ConsumerMember struct {
	ID               string
	InstanceID       *string
	RackID           *string
	ClientID, Host   string
	RebalanceTimeout time.Duration
	ServerAssignor   *string
	Topics           []string // subscribed, ascending
	Regex            *string  // subscribed (RE2)
	// Epoch is the member's, PreviousEpoch the one before it, in which it may still commit.
	Epoch, PreviousEpoch int32
	State                MemberState
	Assigned             Assignment
	Revoking             Assignment // to be given up first
	// Classic is set for a member that speaks the classic protocol to a group of this one.
	Classic *ClassicSession
}

// ClassicSession is what a classic member of a next-generation group has beside.
type ClassicSession struct {
	SessionTimeout time.Duration
	Protocols      []Protocol
}
