package partition

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/sleep"
)

// CleanerOptions of a broker's cleaner. Threads, Memory, BytesPerSecond and Backoff may be
// others while it runs, see [Cleaner.Reconfigure].
type CleanerOptions struct {
	RetentionInterval time.Duration // log.retention.check.interval.ms; 5 min
	Threads           int           // log.cleaner.threads, of compaction; 1
	Memory            int64         // log.cleaner.dedupe.buffer.size, of all threads together; 128 MiB
	BytesPerSecond    float64       // log.cleaner.io.max.bytes.per.second, read and written by all threads; 0 is no limit
	Backoff           time.Duration // log.cleaner.backoff.ms: wait while nothing is to be done; 15 s
	NoCompaction      bool          // log.cleaner.enable=false

	Now func() time.Time // time.Now
	Log *slog.Logger     // slog.Default
}

func (o CleanerOptions) withDefaults() CleanerOptions {
	orElse(&o.RetentionInterval, 5*time.Minute)
	orElse(&o.Threads, 1)
	orElse(&o.Memory, 128<<20)
	orElse(&o.Backoff, 15*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Cleaner applies retention and compaction to all partitions that a broker serves. What
// fails on one of them is logged, counted and tried again later, and holds up no other.
type Cleaner struct {
	opt        CleanerOptions // as it was made
	partitions func() []*Partition
	limit      limiter

	mu struct {
		sync.Mutex
		live   CleanerOptions      // what it goes by
		newer  chan struct{}       // closed when live is another
		many   int                 // threads that compact
		busy   map[*Partition]bool // being compacted
		owed   map[*Partition]bool // retention came by meanwhile
		failed map[cleanerJob]*failure
		later  map[*Partition]time.Time // nothing can be done before
	}
	stats struct{ retentions, compactions, failures, bytes, removed atomic.Int64 }
}

type cleanerJob struct {
	p       *Partition
	compact bool
}

// failure is why and until when a partition is left alone.
type failure struct {
	times int
	until time.Time
}

// CleanerStats counts since the start.
type CleanerStats struct {
	Retentions, Compactions int64 // that ended well
	Failures                int64
	Bytes                   int64 // read and written by compaction
	Removed                 int64 // records, by compaction
	Failing                 int   // partitions whose last attempt failed
	Threads                 int   // of compaction
}

// NewCleaner makes a cleaner of the partitions that the func returns each time it is
// asked.
func NewCleaner(partitions func() []*Partition, opt CleanerOptions) *Cleaner {
	c := &Cleaner{opt: opt.withDefaults(), partitions: partitions}
	c.limit.now, c.mu.live, c.mu.newer = c.opt.Now, c.opt, make(chan struct{})
	c.limit.set(c.opt.BytesPerSecond)
	c.mu.busy, c.mu.owed = map[*Partition]bool{}, map[*Partition]bool{}
	c.mu.failed, c.mu.later = map[cleanerJob]*failure{}, map[*Partition]time.Time{}
	return c
}

// Stats are figures for metrics.
func (c *Cleaner) Stats() CleanerStats {
	c.mu.Lock()
	failing, threads := len(c.mu.failed), c.mu.live.Threads
	c.mu.Unlock()
	return CleanerStats{c.stats.retentions.Load(), c.stats.compactions.Load(), c.stats.failures.Load(),
		c.stats.bytes.Load(), c.stats.removed.Load(), failing, threads}
}

// Run cleans until ctx ends, and returns when nothing of it is under way.
func (c *Cleaner) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { c.retain(ctx) })
	if c.opt.NoCompaction {
		return
	}
	for ctx.Err() == nil {
		newer := c.enough(func() { wg.Go(func() { c.compact(ctx) }) })
		select {
		case <-newer:
		case <-ctx.Done():
		}
	}
}

// retain goes through all partitions, again and again.
func (c *Cleaner) retain(ctx context.Context) {
	for sleep.For(ctx, c.opt.RetentionInterval) {
		c.forget()
		for _, p := range c.partitions() {
			c.retainOne(ctx, p)
		}
	}
}

// retainOne leaves a partition that is being compacted, which may take hours, to who
// compacts it: retention of the others must not wait for that.
func (c *Cleaner) retainOne(ctx context.Context, p *Partition) {
	job := cleanerJob{p, false}
	if ctx.Err() != nil || !c.mayTry(job) {
		return
	}
	done, err := p.retainIfFree(ctx)
	c.owe(p, !done && err == nil)
	if (done || err != nil) && c.settle(ctx, job, err) {
		c.stats.retentions.Add(1)
	}
}

func (c *Cleaner) owe(p *Partition, owed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owed {
		c.mu.owed[p] = true
	} else {
		delete(c.mu.owed, p)
	}
}

// owes says whether retention has come by while the partition was being compacted.
func (c *Cleaner) owes(p *Partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.owed[p]
}

// compact takes the partition with the most to do, again and again.
func (c *Cleaner) compact(ctx context.Context) {
	for c.backOff(ctx) {
		for ctx.Err() == nil {
			if c.surplus() {
				return
			}
			p := c.take(ctx)
			if p == nil {
				break
			}
			opt, _ := c.live()
			st, err := p.Compact(ctx, CompactOptions{Memory: opt.Memory / int64(opt.Threads), Throttle: c.limit.wait})
			c.stats.bytes.Add(st.Read + st.Written)
			c.stats.removed.Add(st.Records - st.Kept)
			if c.settle(ctx, cleanerJob{p, true}, err) && st.Segments > 0 {
				c.stats.compactions.Add(1)
			}
			if c.owes(p) {
				c.retainOne(ctx, p)
			}
			c.give(p)
			if err == nil && st.Segments == 0 {
				c.putOff(p) // asking again at once would find the same, and hold up others
			}
		}
	}
}

// take marks the dirtiest partition that is due as busy, and returns it; nil if there
// is none.
func (c *Cleaner) take(ctx context.Context) *Partition {
	var best *Partition
	most := -1.0
	for _, p := range c.partitions() {
		if ctx.Err() != nil || !c.mayTry(cleanerJob{p, true}) || c.isBusy(p) {
			continue
		}
		ratio, due, err := p.Dirty(ctx)
		if err != nil {
			c.settle(ctx, cleanerJob{p, true}, err)
			continue
		}
		if due && ratio > most {
			best, most = p, ratio
		}
	}
	if best == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.busy[best] {
		return nil // another thread was faster; the next round finds others
	}
	c.mu.busy[best] = true
	return best
}

func (c *Cleaner) isBusy(p *Partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.busy[p]
}

func (c *Cleaner) give(p *Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.busy, p)
}

func (c *Cleaner) mayTry(job cleanerJob) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opt.Now()
	if job.compact && now.Before(c.mu.later[job.p]) {
		return false
	}
	f := c.mu.failed[job]
	return f == nil || !now.Before(f.until)
}

// putOff leaves a partition out for a while of which nothing can be compacted, though
// it is due: a transaction that has not ended is in the way.
func (c *Cleaner) putOff(p *Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.later[p] = c.opt.Now().Add(c.mu.live.Backoff)
}

// longestBackoff is how long a partition that fails is left alone at most: what was
// mended is found without a restart.
const longestBackoff = 5 * time.Minute

// settle notes how an attempt ended, and reports whether well.
func (c *Cleaner) settle(ctx context.Context, job cleanerJob, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.mu.failed, job)
		return true
	}
	if ctx.Err() != nil || errors.Is(err, kerr.NotLeaderForPartition) {
		return false // the broker stops, or the partition is another's
	}
	f := c.mu.failed[job]
	if f == nil {
		f = &failure{}
		c.mu.failed[job] = f
	}
	wait := min(c.mu.live.Backoff<<min(f.times, 10), longestBackoff)
	f.times++
	f.until = c.opt.Now().Add(wait)
	c.stats.failures.Add(1)
	c.opt.Log.Error("a partition cannot be cleaned; others are", "partition", job.p.name, "compaction", job.compact,
		"times", f.times, "again_in", wait, "err", err)
	return false
}

// forget drops what is known of partitions that have ended.
func (c *Cleaner) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for job := range c.mu.failed {
		if job.p.Err() != nil {
			delete(c.mu.failed, job)
		}
	}
	for p := range c.mu.owed {
		if p.Err() != nil {
			delete(c.mu.owed, p)
		}
	}
	for p := range c.mu.later {
		if p.Err() != nil {
			delete(c.mu.later, p)
		}
	}
}
