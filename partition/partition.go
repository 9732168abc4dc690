package partition

import (
	"context"
	"errors"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// Partition is the leadership of one partition by this process in one epoch.
type Partition struct{}

// Appended is a batch that has its offset and is on its way to the volume.
type Appended struct {
	BaseOffset     int64
	LogAppendTime  int64 // milliseconds, or -1 where the topic keeps the producer's time
	LogStartOffset int64
}

// Fetched is what a Read found.
type Fetched struct {
	Records          []byte // whole batches
	HighWatermark    int64
	LastStableOffset int64
	LogStart         int64
}

var errTodo = errors.New("not built yet")

// BuildTopic makes the topic's directory, complete, in one rename. It is idempotent.
func BuildTopic(v *substrate.Volume, session string, id [16]byte, name string, partitions int, now time.Time) error {
	return errTodo
}

// DeleteTopicDir drives the topic's directory to being gone, or returns ctx's error.
func DeleteTopicDir(ctx context.Context, v *substrate.Volume, id [16]byte) error { return errTodo }

// Open takes the partition over in the given epoch.
func Open(ctx context.Context, s *substrate.Session, id [16]byte, topic string, index int32, epoch int32, cfg Config) (*Partition, error) {
	return nil, errTodo
}

// Append validates a batch, gives it its offsets in place and queues it for the volume.
// The buffer is the partition's until Wait has returned something other than ctx's error.
func (p *Partition) Append(ctx context.Context, batch []byte) (*Appended, error) { return nil, errTodo }

// Wait returns nil when the batch is committed.
func (a *Appended) Wait(ctx context.Context) error { return errTodo }

// Read returns whole batches from the one that contains offset.
func (p *Partition) Read(ctx context.Context, offset int64, maxBytes int, minOne bool) (Fetched, error) {
	return Fetched{}, errTodo
}

// Offsets returns log start, high watermark and last stable offset.
func (p *Partition) Offsets() (logStart, highWatermark, lastStable int64) { return 0, 0, 0 }

// Changed is closed at the next advance of the high watermark or when the partition ends.
func (p *Partition) Changed() <-chan struct{} { return nil }

// OffsetForTimestamp finds the first record at or after ts (milliseconds); offset -1 if none.
func (p *Partition) OffsetForTimestamp(ctx context.Context, ts int64) (offset, timestamp int64, leaderEpoch int32, err error) {
	return -1, -1, -1, errTodo
}

// MaxTimestamp finds the record with the largest timestamp (KIP-734); offset -1 if empty.
func (p *Partition) MaxTimestamp(ctx context.Context) (offset, timestamp int64, leaderEpoch int32, err error) {
	return -1, -1, -1, errTodo
}

// LeaderEpoch is the epoch of this leadership.
func (p *Partition) LeaderEpoch() int32 { return 0 }

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch at or below the asked one, and
// where it ends; -1, -1 if there is none.
func (p *Partition) EpochEnd(epoch int32) (leaderEpoch int32, endOffset int64) { return -1, -1 }

// Relinquish commits what is pending, publishes a closed manifest and closes every file.
func (p *Partition) Relinquish(ctx context.Context) error { return errTodo }

// Abandon ends the leadership at once, without a closed manifest, and waits for its
// files to be closed.
func (p *Partition) Abandon(ctx context.Context) error { return errTodo }

// Done is closed when the partition has ended; Err then tells why.
func (p *Partition) Done() <-chan struct{} { return nil }

// Err is nil while the partition is alive.
func (p *Partition) Err() error { return nil }
