package scenario

import (
	"context"
	"time"
)

// Client is what the scenarios ask of a client. A function that is nil is of something that
// the client does not have; Skip gives the reason for the scenarios that need it.
type Client struct {
	Name string

	// Skip has, by the name of a scenario, why the client cannot do it.
	Skip map[string]string

	// NullIsEmpty: what the client reads does not tell null from empty.
	NullIsEmpty bool

	// Code is Kafka's code of an error that the client returned, 0 where it has none.
	Code func(error) int16

	CreateTopic   func(ctx context.Context, topic string, partitions int, configs map[string]string) error
	DeleteTopic   func(ctx context.Context, topic string) error
	Partitions    func(ctx context.Context, topic string) (int, error)
	AddPartitions func(ctx context.Context, topic string, total int) error

	// Produce writes to one partition in order, and returns when all is acknowledged.
	Produce func(ctx context.Context, to Target, records []Record) error
	// Fetch reads want records of a partition from its beginning, and then for a short
	// while to see that there are no more.
	Fetch func(ctx context.Context, topic string, partition int32, want int, committed bool) ([]Record, error)
	// Offset is the first offset whose record has this time or a later one; Earliest and
	// Latest are no times.
	Offset func(ctx context.Context, topic string, partition int32, at int64) (int64, error)

	Join func(ctx context.Context, m Membership) (Member, error)

	Config       func(ctx context.Context, topic, name string) (value string, set bool, err error)
	SetConfig    func(ctx context.Context, topic, name, value string) error
	DeleteBefore func(ctx context.Context, topic string, partition int32, offset int64) error

	Groups     func(ctx context.Context) ([]string, error)
	GroupState func(ctx context.Context, group string) (state string, members int, err error)
	// GroupType is Classic or Consumer.
	GroupType    func(ctx context.Context, group string) (string, error)
	Committed    func(ctx context.Context, group, topic string) (map[int32]int64, error)
	SetCommitted func(ctx context.Context, group, topic string, offsets map[int32]int64) error
	DeleteOffset func(ctx context.Context, group, topic string, partition int32) error
	DeleteGroup  func(ctx context.Context, group string) error

	Transactor func(ctx context.Context, id string) (Transactor, error)
}

// What Offset takes for a time.
const (
	Latest   int64 = -1
	Earliest int64 = -2
)

// Target is where and how records are written.
type Target struct {
	Topic      string
	Partition  int32
	Codec      string // of Codecs
	Idempotent bool
}

// Codecs are numbered as in batches' attributes.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Membership is how a member joins a group.
type Membership struct {
	Group, Topic string
	Instance     string // makes it a static member
	Consumer     bool   // by the consumer protocol (KIP-848)
}

// Member is one of a group's. Only one goroutine uses it.
type Member interface {
	// Poll waits at most so long, and returns what has come.
	Poll(d time.Duration) ([]Record, error)
	Assigned() []int32
	// Rebalances counts how often it was given partitions or lost some.
	Rebalances() int
	// Commit commits all that Poll has returned.
	Commit() error
	// Close leaves the group, unless the member is static.
	Close() error
}

// Transactor is a transactional producer.
type Transactor interface {
	Begin() error
	Produce(ctx context.Context, topic string, partition int32, records []Record) error
	// Offsets makes a group's offset a part of the transaction.
	Offsets(ctx context.Context, group, topic string, partition int32, offset int64) error
	End(ctx context.Context, commit bool) error
	Close()
}

// NoMore is how long Fetch looks for what should not be there.
const NoMore = 200 * time.Millisecond

// Transactions are the scenarios that a client without them skips.
var Transactions = []string{
	"transaction commit", "transaction abort", "read committed", "read uncommitted", "transaction offsets", "transaction fenced",
}
