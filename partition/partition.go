package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// Partition is the leadership of one partition by this process in one epoch.
//
// Appends queue up. A writer goroutine takes all that are queued and writes them; a
// committer takes all that is written, syncs it, has a manifest name its files, has a
// Check cover it and moves the high watermark. Both live only while there is work, and
// appends go on during a commit.
type Partition struct {
	s     *substrate.Session
	v     *substrate.Volume
	w     *metalog.Writer[*Manifest]
	dir   string
	name  string // topic-partition, for people
	epoch substrate.Epoch
	conf  atomic.Pointer[Config] // see cfg and Reconfigure

	ctx    context.Context // ends with the partition
	cancel context.CancelFunc
	done   chan struct{} // closed with err set
	gone   chan struct{} // closed when nothing of the partition runs or is open

	mu struct {
		sync.Mutex
		err     error // why it ended
		closing bool  // no further Append
		closed  bool  // the closed manifest is out
		changed chan struct{}

		watchers map[chan<- struct{}]struct{}

		next    int64 // offset of the next append
		queue   [][]byte
		group   chan struct{} // closed when what is queued now is committed
		writing bool          // the writer lives

		segs       []*segment // ascending; replaced, never changed in place
		recent     []*segment // with open files, least recently used first
		written    mark
		pending    []chan struct{} // groups that are written
		committing bool            // the committer lives
		recover    bool            // a recovery point is due
		ahead      syncAhead
		timer      *time.Timer     // publishes a recovery point when idle; nil while it does not run
		timedAt    int64           // end of the log when the timer was started
		freeze     []chan struct{} // who asks that the active segment be ended

		describing bool // the manifest is being told what the configuration says of the topic

		doomed  []doomed // files to be unlinked; their reaper lives while there are any
		reaping bool

		open    int         // groups that are not committed
		commits int         // windows that are through, and waits that are over
		watch   *time.Timer // looks whether the volume answers; nil while there is nothing to wait for
		watched int         // commits when it was started

		hw        mark
		stable    int64 // the last stable offset
		stableAt  Place // where that lies, if somebody has looked
		recovered int64 // offset of the newest recovery point
		logStart  int64
		cleaned   int64 // up to where the log was compacted
		epochs    []EpochStart

		producers producers
		guards    Guard    // given so far
		flights   []flight // ascending
	}
	wg      sync.WaitGroup // writer and committer
	readers sync.WaitGroup
	reads   substrate.Lane // of readers, also those that nobody waits for any more
	hung    atomic.Int64   // reads that were given up and have not returned
	share   budgetShare    // guarded by the budget

	active *segment // where the writer writes; the writer's
	spare  [][]byte // the writer's

	gen        atomic.Uint32 // of the next segment
	upkeep     upkeep
	distrusted atomic.Bool // see Region.Trusted

	damagedTail bool // see tailDamage; the takeover's

	recPos int64 // byte of the recovery point in the newest admitted segment; the committer's
}

// mark is a place in the log.
type mark struct {
	offset int64
	seg    *segment // that ends or goes on there; nil in a log without segments
	pos    int64
}

// ErrRelinquished means that this process has given the partition up.
var ErrRelinquished = errors.New("partition is relinquished")

// LeaderEpoch is the epoch of this leadership.
func (p *Partition) LeaderEpoch() int32 { return int32(p.epoch) }

// Done is closed when the partition has ended; Err then tells why.
func (p *Partition) Done() <-chan struct{} { return p.done }

// Err is nil while the partition is alive. Afterwards it wraps NOT_LEADER_OR_FOLLOWER
// with ErrRelinquished or substrate.ErrFenced, or KAFKA_STORAGE_ERROR with the cause.
func (p *Partition) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

// Offsets are the log start, the high watermark and the last stable offset. They are
// committed, but not fresh: another leader may have gone on.
func (p *Partition) Offsets() (logStart, highWatermark, lastStable int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.logStart, p.mu.hw.offset, p.mu.stable
}

// Start is where the log starts, and the leader epoch that wrote there, or would.
func (p *Partition) Start() (offset int64, leaderEpoch int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	leaderEpoch = -1
	for _, e := range p.mu.epochs {
		if e.Start <= p.mu.logStart {
			leaderEpoch = int32(e.Epoch)
		}
	}
	return p.mu.logStart, leaderEpoch
}

// Changed is closed at the next advance of the high watermark or when the partition
// ends. Take it before looking.
func (p *Partition) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil {
		return p.done
	}
	if p.mu.changed == nil {
		p.mu.changed = make(chan struct{})
	}
	return p.mu.changed
}

// wake tells everybody who took Changed. The caller holds mu.
func (p *Partition) wake() {
	if p.mu.changed != nil {
		close(p.mu.changed)
		p.mu.changed = nil
	}
	p.tellWatchers()
}

// EpochEnd answers OffsetForLeaderEpoch (KIP-101, KIP-279): the largest epoch at or
// below the asked one, and where it ends; -1, -1 for one that is above ours.
func (p *Partition) EpochEnd(epoch int32) (leaderEpoch int32, endOffset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	es := p.mu.epochs
	if epoch < 0 || substrate.Epoch(epoch) > p.epoch {
		return -1, -1
	}
	for i := len(es) - 1; i >= 0; i-- {
		if es[i].Epoch > substrate.Epoch(epoch) {
			continue
		}
		if i == len(es)-1 {
			return int32(es[i].Epoch), p.mu.hw.offset
		}
		return int32(es[i].Epoch), es[i+1].Start
	}
	return epoch, es[0].Start
}

// classify gives an end its Kafka error.
func (p *Partition) classify(err error) error {
	var ke *kerr.Error
	switch {
	case errors.As(err, &ke):
		return err
	case errors.Is(err, substrate.ErrFenced) || errors.Is(err, ErrRelinquished) || errors.Is(err, metalog.ErrClosed):
		return fmt.Errorf("%w: %s epoch %d: %w", kerr.NotLeaderForPartition, p.name, p.epoch, err)
	default:
		return fmt.Errorf("%w: %s epoch %d: %w", kerr.KafkaStorageError, p.name, p.epoch, err)
	}
}
