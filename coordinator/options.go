package coordinator

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/sasl"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/coordinator/election"
	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// Options of a broker. Zero fields have the defaults that their comments name.
type Options struct {
	NodeID      int32                  // node.id
	Host        string                 // for people: who holds a session
	Listeners   []projections.Listener // as advertised
	Rack        string                 // broker.rack
	Incarnation string                 // of this process, a UUID; made if empty
	// InterBroker is the name of the listener on which brokers ask each other; the first
	// (inter.broker.listener.name).
	InterBroker string
	// Peers ask other brokers; franz-go's client if nil.
	Peers Peers
	// Secure makes a new connection to another broker what its inter-broker listener
	// expects, such as TLS, or closes it; host is the broker's. Nil: it is as it should be.
	Secure func(ctx context.Context, nc net.Conn, host string) (net.Conn, error)
	// Login is the mechanism of SASL by which this broker authenticates to others; nil where
	// their listener has none.
	Login sasl.Mechanism
	// Lock is what the election holds; one on the volume if nil. The times are those of
	// its lease: 3 s, 2 s, 500 ms.
	Lock                                     resourcelock.Interface
	LeaseDuration, RenewDeadline, LeaseRetry time.Duration
	// BeginWait is how long a term as controller may take to begin before another broker is
	// let try; 30 s.
	BeginWait time.Duration
	// FollowInterval is how often the cluster stream is looked at, where nothing wakes:
	// 200 ms (metadata.poll.interval.ms).
	FollowInterval time.Duration
	// HeartbeatInterval and SessionTimeout are broker.heartbeat.interval.ms, 2 s, and
	// broker.session.timeout.ms, 9 s.
	HeartbeatInterval, SessionTimeout time.Duration
	// HandoverWait is how long a leader may take to close what it hands over; 5 s
	// (handover.wait.ms).
	HandoverWait time.Duration
	// StartGrace is how long a controller that has just started waits for the brokers it
	// knows before it gives what they led to others; 3 s.
	StartGrace time.Duration
	// StallAfter is how long a probe write may take before the volume counts as stalled;
	// 30 s (storage.stall.timeout.ms).
	StallAfter time.Duration
	// GroupShards and TxnShards are how many shards the coordinators have, fixed when they
	// are first made; 16 each.
	GroupShards, TxnShards int32
	// Groups are the options of the shards of consumer groups. Node, View, Check, the history's
	// bounds, Now and Log are filled in.
	Groups groupshard.Options
	// Txns are those of the shards of transactions; filled in likewise, and Check,
	// NewProducerID, Fence, Deleted and Markers too.
	Txns txnshard.Options
	// FenceExpiry is how long a producer's fence stands; 7 days
	// (transactional.id.expiration.ms).
	FenceExpiry time.Duration
	// PartitionConfig gives the configuration that a topic's partitions go by, in a
	// view. It runs whenever the view changes it, and must not wait. Nil means
	// partition's defaults. Now, Node and Log are filled in.
	PartitionConfig func(*projections.Cluster, *projections.Topic) partition.Config
	// HistoryAge and HistoryEntries bound the cluster stream's history: 7 days and
	// 10,000 (metadata.history.retention.ms and .entries).
	HistoryAge     time.Duration
	HistoryEntries int
	// CheckInterval is how often an idle broker looks whether it was fenced; 500 ms.
	CheckInterval time.Duration
	// MinFree is the free bytes below which records are refused; 0 never
	// (storage.min.free.bytes). Ballast is the size of the file that is given up when the
	// volume is full; 0 is none (storage.ballast.bytes). With one, 4 MiB are kept free too.
	MinFree, Ballast int64
	// SpaceInterval is how often free space is looked at; 1 s.
	SpaceInterval time.Duration
	// Waiting is told, in one line, what a start waits for that finds the volume full or
	// cannot register, and nil when there is room. It must not wait itself, and is called side by side.
	Waiting func(why error)
	// RecoveryBytes bounds what all partitions together have past their recovery
	// points; 1 GiB (log.recovery.bytes.total).
	RecoveryBytes int64
	// OpenParallel bounds how many partitions are opened or closed at once; 32.
	OpenParallel int
	// Cleaner has retention and compaction run; nil leaves both out.
	Cleaner *partition.CleanerOptions
	// CleanerLive gives the cleaner's options in a view, when brokers' configuration
	// changes; nil where it never does. See partition.Cleaner.Reconfigure.
	CleanerLive func(*projections.Cluster) partition.CleanerOptions
	NewTopicID  func() projections.TopicID // projections.NewTopicID
	Now         func() time.Time           // time.Now
	Log         *slog.Logger               // slog.Default

	open  opener                                       // partition.Open; tests put faults in between
	elect func(context.Context, election.Config) error // election.Run; its jitter would keep a seed from replaying

	breaks breaks
}

// breaks takes single rules away, for the tests of the tests.
type breaks struct {
	noClosing   bool // a successor by handover claims without waiting for the closing
	noFenceSeal bool // a broker is fenced without sealing its session
}

type opener func(ctx context.Context, s *substrate.Session, id [16]byte, topic string, index, epoch int32, cfg partition.Config) (*partition.Partition, error)

func (o Options) withDefaults() Options {
	orElse(&o.HistoryAge, 7*24*time.Hour)
	orElse(&o.HistoryEntries, 10_000)
	orElse(&o.CheckInterval, 500*time.Millisecond)
	orElse(&o.OpenParallel, 32)
	orElse(&o.LeaseDuration, 3*time.Second)
	orElse(&o.RenewDeadline, 2*time.Second)
	orElse(&o.LeaseRetry, 500*time.Millisecond)
	orElse(&o.BeginWait, 30*time.Second)
	orElse(&o.FollowInterval, 200*time.Millisecond)
	orElse(&o.HeartbeatInterval, 2*time.Second)
	orElse(&o.SessionTimeout, 9*time.Second)
	orElse(&o.HandoverWait, 5*time.Second)
	orElse(&o.StartGrace, 3*time.Second)
	orElse(&o.StallAfter, 30*time.Second)
	orElse(&o.FenceExpiry, 7*24*time.Hour)
	orElse(&o.GroupShards, 16)
	orElse(&o.TxnShards, 16)
	if o.Incarnation == "" {
		o.Incarnation = uuid.NewString()
	}
	if o.InterBroker == "" && len(o.Listeners) > 0 {
		o.InterBroker = o.Listeners[0].Name
	}
	orElse(&o.SpaceInterval, time.Second)
	orElse(&o.RecoveryBytes, 1<<30)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.NewTopicID == nil {
		o.NewTopicID = projections.NewTopicID
	}
	if o.elect == nil {
		o.elect = election.Run
	}
	if o.Waiting == nil {
		o.Waiting = func(error) {}
	}
	if o.open == nil {
		o.open = partition.Open
	}
	if o.PartitionConfig == nil {
		o.PartitionConfig = func(*projections.Cluster, *projections.Topic) partition.Config { return partition.Config{} }
	}
	return o
}

func orElse[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// ElectBy has elect stand for this broker in the place of election.Run, whose jitter keeps a
// simulated run from replaying. It is for tests of other packages.
func (o *Options) ElectBy(elect func(context.Context, election.Config) error) { o.elect = elect }
