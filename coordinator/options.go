package coordinator

import (
	"context"
	"log/slog"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// Options of a broker. Zero fields have the defaults that their comments name.
type Options struct {
	NodeID    int32                  // node.id
	Host      string                 // for people: who holds a session
	Listeners []projections.Listener // as advertised
	Rack      string                 // broker.rack
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
	// Waiting is told, in one line, what a start waits for that finds the volume full, and
	// nil when it waits no more. It must not wait itself.
	Waiting func(why error)
	// RecoveryBytes bounds what all partitions together have past their recovery
	// points; 1 GiB (log.recovery.bytes.total).
	RecoveryBytes int64
	// OpenParallel bounds how many partitions are opened or closed at once; 16.
	OpenParallel int
	// Cleaner has retention and compaction run; nil leaves both out.
	Cleaner    *partition.CleanerOptions
	NewTopicID func() projections.TopicID // projections.NewTopicID
	Now        func() time.Time           // time.Now
	Log        *slog.Logger               // slog.Default

	open opener // partition.Open; tests put faults in between
}

type opener func(ctx context.Context, s *substrate.Session, id [16]byte, topic string, index, epoch int32, cfg partition.Config) (*partition.Partition, error)

func (o Options) withDefaults() Options {
	orElse(&o.HistoryAge, 7*24*time.Hour)
	orElse(&o.HistoryEntries, 10_000)
	orElse(&o.CheckInterval, 500*time.Millisecond)
	orElse(&o.OpenParallel, 16)
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
