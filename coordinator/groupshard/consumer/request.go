package consumer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/groups"
)

// Topics is what there is to be subscribed to; a *projections.Cluster is one. It never
// changes: other topics are another value, and the values are comparable.
type Topics interface {
	Topic(name string) *projections.Topic
	TopicByID(id projections.TopicID) *projections.Topic
	Topics() []*projections.Topic
}

// Config is what holds for one group.
type Config struct {
	SessionTimeout    time.Duration
	HeartbeatInterval time.Duration
	MaxSize           int      // members a group may have; 0: any number
	Assignors         []string // that members may ask for; the first is used if none does
	// Upgrade lets a classic group with members go over to this protocol when a member of
	// it joins, Downgrade back when the last of them is gone, if no more than
	// ClassicMaxSize are left (0: any number).
	Upgrade, Downgrade bool
	ClassicMaxSize     int
	// Describer tells what a member may describe of the topics that its pattern matches, by a
	// comparable value, or nil for all. It is nil where everybody may describe everything.
	Describer func(*groups.ConsumerMember) Describer
	// Memory is what is known of the topics from calls before; nil is none. It spares
	// time and never changes a result.
	Memory *Memory
	// Unmatched is set where others wait for the call: it is made true, and what the call
	// returns is of no use, if patterns have to be matched first that the memory does not know.
	Unmatched *bool
	// Spent is told how long the call has looked at patterns; it may be nil.
	Spent func(time.Duration)
}

// spent tells how long patterns were looked at since then.
func (c *Config) spent(began time.Time) {
	if c.Spent != nil {
		c.Spent(time.Since(began))
	}
}

// Describer is somebody who may describe some topics.
type Describer interface {
	Describes(topic string) bool
	// Who is the same for the same of these, and comparable.
	Who() any
}

// HeartbeatRequest is a ConsumerGroupHeartbeat. A field that is nil, or the rebalance
// timeout where it is negative, has not changed since the member sent it last.
type HeartbeatRequest struct {
	GroupID          string
	Version          int16  // of the request
	MemberID         string // empty: the member is given NewID (version 0)
	NewID            string // an ID that no member has
	MemberEpoch      int32  // 0: joins, -1: leaves, -2: a static member is away for a while
	InstanceID       *string
	RackID           *string
	RebalanceTimeout time.Duration
	ClientID, Host   string
	Principal        string   // who asks, where there is an authorizer
	Tenant           string   // whose share of the memory for members it takes; not stored
	Topics           []string // subscribed by name
	Regex            *string  // subscribed by pattern; empty: by none
	ServerAssignor   *string
	Owned            []groups.TopicPartitions
	Spent            func(time.Duration) // is told how long patterns were looked at for it; may be nil
}

// HeartbeatResponse answers a heartbeat.
type HeartbeatResponse struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration
	// Assignment is what the member is to own from now on, nil if that was told before.
	Assignment groups.Assignment
	// Left says that the member has no session any more. SessionTimeout is how long it has
	// for its next heartbeat otherwise.
	Left           bool
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the member has to give up partitions, 0 if it need not.
	// That time runs since it was asked first, or, if RevokesAnew, since now.
	RebalanceTimeout time.Duration
	RevokesAnew      bool
	// Replaced is a member that is gone because this one took its instance ID, or empty.
	Replaced string
}

// full reports whether the request holds everything that a member can say. It is what
// members send that do not know what the group knows of them.
func (r *HeartbeatRequest) full() bool {
	return r.MemberEpoch == joining || r.RebalanceTimeout >= 0 && (r.Topics != nil || r.Regex != nil) && r.Owned != nil
}

// The member epochs that are none.
const (
	joining = 0
	leaving = -1
	away    = -2 // a static member that comes back
)

func invalid(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, kerr.InvalidRequest)...)
}

// blank is what Kafka takes for empty.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

// validate checks what can be seen from the request alone.
func (r *HeartbeatRequest) validate(cfg Config) error {
	switch {
	case blank(r.MemberID) && (r.Version >= 1 || r.MemberEpoch > 0 || r.MemberEpoch == leaving):
		return invalid("the member ID is empty")
	case blank(r.GroupID):
		return invalid("the group ID is empty")
	case r.InstanceID != nil && blank(*r.InstanceID):
		return invalid("the instance ID is empty")
	case r.RackID != nil && blank(*r.RackID):
		return invalid("the rack ID is empty")
	case r.MemberEpoch < away:
		return invalid("member epoch %d", r.MemberEpoch)
	case r.MemberEpoch == away && r.InstanceID == nil:
		return invalid("member epoch %d is for static members, and the instance ID is missing", r.MemberEpoch)
	case r.MemberEpoch == joining:
		if err := r.validateJoin(); err != nil {
			return err
		}
	}
	if r.ServerAssignor != nil && !slices.Contains(cfg.Assignors, *r.ServerAssignor) {
		return fmt.Errorf("assignor %q is none of %q: %w", *r.ServerAssignor, cfg.Assignors, kerr.UnsupportedAssignor)
	}
	return nil
}

func (r *HeartbeatRequest) validateJoin() error {
	switch {
	case r.RebalanceTimeout < 0:
		return invalid("a member that joins says its rebalance timeout")
	case r.Owned == nil || len(r.Owned) > 0:
		return invalid("a member that joins says that it owns no partitions")
	case r.Topics == nil && r.Regex == nil:
		return invalid("a member that joins says what it subscribes to, by name or by pattern")
	}
	return nil
}
