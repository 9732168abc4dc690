package partition

import (
	"log/slog"
	"math"
	"time"
)

// Config of a partition, never changed once it is in use: [Partition.Reconfigure]
// puts another in its place. A zero field has the default that its comment names.
type Config struct {
	SegmentBytes       int64         // segment.bytes; 1 GiB, at most 2 GiB - 1
	SegmentAge         time.Duration // segment.ms, by record time; 7 days
	IndexIntervalBytes int           // index.interval.bytes; 4,096
	MaxMessageBytes    int           // max.message.bytes, of a whole batch as sent; 1 MiB + 12
	MaxInflated        int           // max.decompressed.message.bytes, of a compressed batch's records; 128 MiB, and no more
	// FlushMessages is the broker's log.flush.interval.messages. 1, the default, is durable;
	// above it the fdatasync is left out, never the Check: what was not synced can be
	// lost with its host, and on NFS at any takeover.
	FlushMessages int64
	// RecoveryPointBytes is how many bytes may be appended before the manifest gets a new
	// recovery point, and so how much a takeover scans and copies; 64 MiB.
	RecoveryPointBytes int64
	// RecoveryPointIdle is how long after the last append an idle partition publishes one; 5 s.
	RecoveryPointIdle time.Duration
	// LogAppendTime is message.timestamp.type=LogAppendTime.
	LogAppendTime bool
	// TimestampAfterMax is message.timestamp.after.max.ms; 1 hour. Negative is no bound.
	TimestampAfterMax time.Duration
	// ProducerExpiry is producer.id.expiration.ms: a producer that appends nothing for so
	// long is forgotten; 1 day.
	ProducerExpiry time.Duration
	// Fenced gives the least epoch that counts of a producer, if it was fenced in the cluster.
	// It is asked for each batch, and must be quick. Nil is never.
	Fenced func(producerID int64) (epoch int16, ok bool)
	// TimestampBeforeMax is message.timestamp.before.max.ms. Zero or negative is no bound.
	TimestampBeforeMax time.Duration
	// HistoryEntries and HistoryAge bound the manifest's history; 100 and 7 days.
	HistoryEntries int
	HistoryAge     time.Duration

	Compression Compression // the zero value keeps batches as they were sent
	Cleanup     Cleanup     // what removes records; the zero value keeps them
	// StallAfter is how long the volume may leave a commit or a read without an answer:
	// then the partition fails, or the read does; 15 s.
	StallAfter time.Duration
	// Recovery is shared by the partitions of a broker; nil bounds nothing.
	Recovery *RecoveryBudget
	// Room, asked by every Append with its bytes, refuses while the volume has none; nil
	// never does.
	Room func(bytes int) error
	// About is what the cluster says of the topic, for the manifest. It is shared and never
	// changed; nil says nothing.
	About *About
	// After is the leadership of this process that ended before this one begins, if any.
	After *Partition

	Now  func() time.Time // time.Now
	Node int32            // this broker, for people
	Log  *slog.Logger     // slog.Default

	breaks breaks
}

// breaks takes single rules away, for the tests of the tests.
type breaks struct {
	noSync        bool // acknowledge without fdatasync
	noTailCopy    bool // adopt the tail where it lies
	ackBeforeName bool // acknowledge in a segment that no manifest names yet
	noCheck       bool // acknowledge without a Check
	noDirSync     bool // leave out the fsync of the directory that a new segment is in
	appendOn      bool // acknowledge what was written while the sync was under way

	noProducerSnapshot bool // a takeover forgets the manifest's producers
	noProducerScan     bool // a takeover leaves the tail's producers out
	snapshotAhead      bool // the manifest tells of batches beyond its recovery point
	unlinkEarly        bool // unlink before the manifest without the file is committed
	noCompactSync      bool // swap in what compaction wrote without fdatasync
	staleMarks         bool // leave the high watermark in a segment that compaction replaced

	stableAtOnce  bool // a marker counts before it is committed
	noTxnSnapshot bool // a takeover forgets the manifest's transactions
	noAbortedSum  bool // the manifest tells of no aborted transactions
}

func orElse[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

func (c Config) withDefaults() Config {
	orElse(&c.SegmentBytes, 1<<30)
	orElse(&c.SegmentAge, 7*24*time.Hour)
	orElse(&c.IndexIntervalBytes, 4096)
	orElse(&c.MaxMessageBytes, 1<<20+12)
	orElse(&c.MaxInflated, maxInflated)
	c.MaxInflated = min(c.MaxInflated, maxInflated)
	orElse(&c.FlushMessages, 1)
	orElse(&c.RecoveryPointBytes, 64<<20)
	orElse(&c.RecoveryPointIdle, 5*time.Second)
	orElse(&c.StallAfter, 15*time.Second)
	orElse(&c.TimestampAfterMax, time.Hour)
	orElse(&c.ProducerExpiry, 24*time.Hour)
	orElse(&c.HistoryEntries, 100)
	orElse(&c.HistoryAge, 7*24*time.Hour)
	c.SegmentBytes = min(c.SegmentBytes, math.MaxInt32) // an index has 32 bits for a byte
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}
