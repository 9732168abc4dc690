package groupshard

import (
	"context"
	"log/slog"
	"time"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections"
)

// Config is what a group goes by. It may differ from group to group, and change.
type Config struct {
	Classic  classic.Config
	Consumer consumer.Config
	// Retention is for how long the offsets of a group are kept after it lost its last
	// member; 7 days (offsets.retention.minutes).
	Retention time.Duration
}

// Options of a shard. All functions must be quick, but for Check.
type Options struct {
	Node int32 // node.id, for people
	// View is the newest view of the cluster.
	View func() *projections.Cluster
	// Config gives a group's configuration under a view.
	Config func(view *projections.Cluster, group string) Config
	// Check is nil if nobody had fenced this owner at an instant after the call.
	Check func(context.Context) error
	// CommitTimeout is how long a request waits for the volume; 5 s
	// (offsets.commit.timeout.ms).
	CommitTimeout time.Duration
	// CleanEvery is how often expired offsets are looked for; 10 min
	// (offsets.retention.check.interval.ms).
	CleanEvery time.Duration
	// HistoryAge and HistoryEntries bound the stream's history (metadata.history.retention.ms
	// and .entries).
	HistoryAge     time.Duration
	HistoryEntries int
	Now            func() time.Time // for what is stored; time.Now
	Log            *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.CommitTimeout == 0 {
		o.CommitTimeout = 5 * time.Second
	}
	if o.CleanEvery == 0 {
		o.CleanEvery = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Config == nil {
		o.Config = func(*projections.Cluster, string) Config { return DefaultConfig() }
	}
	return o
}
