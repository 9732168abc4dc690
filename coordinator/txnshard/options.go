package txnshard

import (
	"context"
	"log/slog"
	"time"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

// Options of a shard. View, Check, NewProducerID, Fence, Deleted and Markers must be given.
type Options struct {
	Node int32 // node.id, for people
	// View is the newest view of the cluster. It must be quick.
	View func() *projections.Cluster
	// Check is nil if nobody had fenced this owner at an instant after the call.
	Check func(context.Context) error
	// NewProducerID is a producer ID that nobody has or ever had.
	NewProducerID func(context.Context) (int64, error)
	// Fence commits to the cluster stream that nothing below an epoch counts of a producer.
	// It is called again after an error, and for what the view does not show yet.
	Fence func(ctx context.Context, producerID int64, epoch int16) error
	// Deleted reports whether a topic that the view lacks is deleted for certain: a view that
	// is behind lacks new ones too.
	Deleted func(context.Context, projections.TopicID) (bool, error)
	Markers Markers
	// MaxTimeout is the most that a producer may ask for; 15 min (transaction.max.timeout.ms).
	MaxTimeout time.Duration
	// ForgetAfter is after how long without use a transactional ID is forgotten; 7 days
	// (transactional.id.expiration.ms).
	ForgetAfter time.Duration
	// AbortEvery is how often timed out transactions are looked for; 10 s
	// (transaction.abort.timed.out.transaction.cleanup.interval.ms).
	AbortEvery time.Duration
	// CleanEvery is how often IDs to be forgotten are looked for; 1 h
	// (transaction.remove.expired.transaction.cleanup.interval.ms).
	CleanEvery time.Duration
	// CommitTimeout is how long a request waits for the volume; 5 s.
	CommitTimeout time.Duration
	// MarkerTimeout is how long a broker may take to answer for markers; 5 s.
	MarkerTimeout time.Duration
	// EndWait is how long a request that meets an ending transaction waits for it to be
	// complete, before its client is told to come again; 100 ms.
	EndWait time.Duration
	// HistoryAge and HistoryEntries bound the stream's history (metadata.history.retention.ms
	// and .entries).
	HistoryAge     time.Duration
	HistoryEntries int
	Now            func() time.Time // for what is stored; time.Now
	Log            *slog.Logger
}

// Markers sends the ends of transactions to those who have parts of them.
type Markers interface {
	// Write asks a broker, which may be this one, to end transactions, and returns a result
	// for each request in order. A part that was ended so before is no error. An error for
	// all means that any of them may have been done.
	Write(ctx context.Context, to projections.Broker, reqs []MarkerRequest) ([]MarkerResult, error)
}

// MarkerRequest asks one broker to end a transaction in what it leads of it.
type MarkerRequest struct {
	Producer         Producer
	Commit           bool
	CoordinatorEpoch int32
	// Version is the transaction version of the end: from 2 on the producer's epoch is above
	// that of the transaction's records.
	Version    int8
	Partitions []txns.Partition
	// Groups are shards of consumer groups: the offsets that the producer staged in any group
	// of theirs. On the wire they are partitions of __consumer_offsets.
	Groups []int32
}

// MarkerResult has nil or an error for each part of a request.
type MarkerResult struct{ Partitions, Groups []error }

func orDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}

func (o Options) withDefaults() Options {
	orDefault(&o.MaxTimeout, 15*time.Minute)
	orDefault(&o.ForgetAfter, 7*24*time.Hour)
	orDefault(&o.AbortEvery, 10*time.Second)
	orDefault(&o.CleanEvery, time.Hour)
	orDefault(&o.CommitTimeout, 5*time.Second)
	orDefault(&o.MarkerTimeout, 5*time.Second)
	orDefault(&o.EndWait, 100*time.Millisecond)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}
