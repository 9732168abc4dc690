package classic

import (
	"time"

	"kaas.dev/kaas/projections/groups"
)

// Config are the broker's settings for groups.
type Config struct {
	MinSession   time.Duration // group.min.session.timeout.ms
	MaxSession   time.Duration // group.max.session.timeout.ms
	InitialDelay time.Duration // group.initial.rebalance.delay.ms
	MaxSize      int           // group.max.size
	NewID        func() string // a new UUID, for member IDs
}

// Token names a request that waits. It is the caller's, comparable and never nil.
type Token any

// JoinRequest is a JoinGroup. Its slices belong to the group from now on.
type JoinRequest struct {
	Token            Token
	MemberID         string  // empty: none yet
	InstanceID       *string // of a static member (KIP-345)
	ClientID, Host   string
	ProtocolType     string
	Protocols        []groups.Protocol // in the member's order of preference
	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration // at most 0: not said (version 0), the session timeout
	RequireKnownID   bool          // version 4 and later (KIP-394)
	SkipAssignment   bool          // version 9 and later: the client knows the field (KIP-814)
	Reason           string        // for people (KIP-800)
	Tenant           string        // whose share of the memory for members it takes; not stored
}

// JoinResponse is the answer to a JoinGroup.
type JoinResponse struct {
	MemberID       string // also with MEMBER_ID_REQUIRED
	Generation     int32  // -1 with an error
	ProtocolType   string
	Protocol       string
	Leader         string
	SkipAssignment bool
	Members        []JoinMember // for the leader only
}

// JoinMember is what the leader learns of a member.
type JoinMember struct {
	MemberID   string
	InstanceID *string
	Metadata   []byte // of the chosen protocol
}

// SyncRequest is a SyncGroup. Its maps and slices belong to the group from now on.
type SyncRequest struct {
	Token        Token
	MemberID     string
	InstanceID   *string
	Generation   int32
	ProtocolType *string           // nil: not said (before version 5)
	Protocol     *string           // likewise
	Assignments  map[string][]byte // by member ID, of the leader
}

// SyncResponse is the answer to a SyncGroup.
type SyncResponse struct {
	ProtocolType, Protocol string
	Assignment             []byte
}

// LeaveMember is a member that leaves, or is made to.
type LeaveMember struct {
	MemberID   string // empty: whoever has the instance ID
	InstanceID *string
	Reason     string
}

// Effect is what the caller has to do: a [JoinAnswer], a [SyncAnswer] or a [Store].
type Effect interface{ effect() }

// JoinAnswer ends a JoinGroup. Err is a *kerr.Error, or nil.
type JoinAnswer struct {
	Token Token
	JoinResponse
	Err error
}

// SyncAnswer ends a SyncGroup. Err is a *kerr.Error, or nil.
type SyncAnswer struct {
	Token Token
	SyncResponse
	Err error
}

// Store asks for a membership to be made durable. The state is an immutable value.
type Store struct {
	ID    int64 // rises; see [Group.Stored]
	State groups.Classic
}

func (JoinAnswer) effect() {}
func (SyncAnswer) effect() {}
func (Store) effect()      {}
