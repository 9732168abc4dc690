package partition

import (
	"context"
	"math"
	"sync"
	"time"

	"kaas.dev/kaas/internal/sleep"
)

// Reconfigure has the cleaner go by other numbers of threads, bytes of memory and bytes a
// second, and another backoff. A thread that is one too many ends with the partition that it
// compacts. Everything else stays as it was made.
func (c *Cleaner) Reconfigure(opt CleanerOptions) {
	opt = opt.withDefaults()
	c.mu.Lock()
	defer c.mu.Unlock()
	live := c.mu.live
	live.Threads, live.Memory, live.BytesPerSecond, live.Backoff = opt.Threads, opt.Memory, opt.BytesPerSecond, opt.Backoff
	c.limit.set(live.BytesPerSecond)
	c.mu.live = live
	close(c.mu.newer)
	c.mu.newer = make(chan struct{})
}

// live is what the cleaner goes by, until newer is closed.
func (c *Cleaner) live() (opt CleanerOptions, newer <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.live, c.mu.newer
}

// enough begins the threads that are missing.
func (c *Cleaner) enough(begin func()) (newer <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.mu.many < c.mu.live.Threads; c.mu.many++ {
		begin()
	}
	return c.mu.newer
}

// surplus reports that a thread is one too many: it is to end.
func (c *Cleaner) surplus() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.many <= c.mu.live.Threads {
		return false
	}
	c.mu.many--
	return true
}

// backOff waits while nothing is to be compacted, and reports false when ctx has ended.
func (c *Cleaner) backOff(ctx context.Context) bool {
	for {
		opt, newer := c.live()
		t := time.NewTimer(opt.Backoff)
		select {
		case <-t.C:
			return true
		case <-newer: // the wait begins anew
			t.Stop()
			if c.tooMany() {
				return true
			}
		case <-ctx.Done():
			t.Stop()
			return false
		}
	}
}

func (c *Cleaner) tooMany() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.many > c.mu.live.Threads
}

// limiter spreads bytes over time.
type limiter struct {
	now func() time.Time
	mu  struct {
		sync.Mutex
		rate float64   // bytes a second; 0 is no limit
		free time.Time // when what was let through so far is paid for
	}
}

// set makes it another rate for what comes from now on.
func (l *limiter) set(rate float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.rate = rate
}

// wait returns when n more bytes may go.
func (l *limiter) wait(ctx context.Context, n int) error {
	l.mu.Lock()
	rate := l.mu.rate
	if rate <= 0 || math.IsInf(rate, 1) {
		l.mu.Unlock()
		return ctx.Err()
	}
	now := l.now()
	if l.mu.free.Before(now) {
		l.mu.free = now
	}
	at := l.mu.free
	l.mu.free = at.Add(time.Duration(min(float64(n)/rate*1e9, float64(math.MaxInt64/4))))
	l.mu.Unlock()
	if at.After(now) {
		sleep.For(ctx, at.Sub(now))
	}
	return ctx.Err()
}
