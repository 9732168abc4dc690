package election

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	le "k8s.io/client-go/tools/leaderelection"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	"kaas.dev/kaas/internal/sleep"
)

// Config of a candidate. Zero durations have the defaults that their comments name.
type Config struct {
	Lock rl.Interface
	// LeaseDuration, whole seconds, is how long a record stands unchanged before others
	// take it; 3 s. It is at least RenewDeadline and RetryPeriod together.
	LeaseDuration time.Duration
	// RenewDeadline is how long the holder tries to renew before it gives up; 2 s.
	RenewDeadline time.Duration
	// RetryPeriod is how often a holder renews, and how long a candidate waits at most
	// between two looks; 500 ms.
	RetryPeriod time.Duration
	// Healthy says why this process is to hold nothing. It must not wait, least of all for
	// what may hang; nil is always healthy.
	Healthy func() error
	// Gone reports that a holder's process has certainly ended, so that its lease need not
	// be waited for; nil knows of none. It must not wait.
	Gone func(identity string) bool
	// Lead runs while elected. Its context ends when the election is lost or Run's context
	// ends. Its early return gives the election up.
	Lead func(context.Context)
	Log  *slog.Logger // slog.Default
}

const (
	firstPause = time.Second      // after Lead has returned early; doubles
	lastPause  = 30 * time.Second // the longest
	goodTerm   = time.Minute      // after one so long the pauses start again
)

// Run campaigns until ctx ends, and again whenever the election is lost: a process needs
// no restart for it. It returns, when Lead has returned and the lock is released, an
// error only for a Config that cannot work.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.complete(); err != nil {
		return err
	}
	ctx = libraryLog(ctx, cfg.Log)
	g := &guard{Interface: cfg.Lock, cfg: cfg}
	for pause := firstPause; ctx.Err() == nil; {
		led, early, err := g.run(ctx)
		if err != nil {
			return err
		}
		if led >= goodTerm {
			pause = firstPause
		}
		if early {
			// Somebody else may do better; and every term costs the stream an epoch.
			sleep.For(ctx, pause)
			pause = min(2*pause, lastPause)
		}
	}
	return nil
}

func (c *Config) complete() error {
	if c.Lock == nil {
		return errNoLock
	}
	if err := checkIdentity(c.Lock.Identity()); err != nil {
		return err
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.LeaseDuration, 3*time.Second)
	def(&c.RenewDeadline, 2*time.Second)
	def(&c.RetryPeriod, 500*time.Millisecond)
	if err := CheckTimes(c.LeaseDuration, c.RenewDeadline, c.RetryPeriod); err != nil {
		return err
	}
	if c.Gone == nil {
		c.Gone = func(string) bool { return false }
	}
	if c.Healthy == nil {
		c.Healthy = func() error { return nil }
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return nil
}

// CheckTimes judges times that a candidate is to have.
func CheckTimes(lease, deadline, retry time.Duration) error {
	if lease%time.Second != 0 || retry <= 0 || deadline < 2*retry || lease < deadline+retry {
		return fmt.Errorf("election with lease %v, renew deadline %v, retry period %v: want a lease of whole seconds, no less than both others together, and a deadline of at least two periods",
			lease, deadline, retry)
	}
	return nil
}

// lookPeriod is the library's retry period. A candidate of the library waits for it and
// up to JitterFactor times it again between two looks; together that is RetryPeriod.
func (c *Config) lookPeriod() time.Duration {
	return time.Duration(float64(c.RetryPeriod) / (1 + le.JitterFactor))
}

// deadline is the library's renew deadline. It begins after a look period, and the rest of
// RetryPeriod is waited for in it.
func (c *Config) deadline() time.Duration { return c.RenewDeadline + c.RetryPeriod - c.lookPeriod() }

// run is one campaign: to the end of ctx, or of a term. It tells how long Lead ran and
// whether it ended by itself.
func (g *guard) run(ctx context.Context) (led time.Duration, early bool, err error) {
	run, stop := context.WithCancel(ctx)
	defer stop()
	g.campaign = campaign{stop: stop}
	ended := make(chan struct{})
	lead := func(ctx context.Context) {
		defer close(ended)
		defer stop() // no renewal for work that has ended
		g.cfg.Log.Info("elected", "lock", g.Describe(), "identity", g.Identity())
		begun := time.Now()
		g.cfg.Lead(ctx)
		led, early = time.Since(begun), ctx.Err() == nil
	}
	elector, err := le.NewLeaderElector(le.LeaderElectionConfig{
		Lock: g, LeaseDuration: g.cfg.LeaseDuration, RenewDeadline: g.cfg.deadline(), RetryPeriod: g.cfg.lookPeriod(),
		Callbacks: le.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return 0, false, err
	}
	// The library's own release would come before Lead's context ends.
	elector.Run(run)
	if !g.elected {
		return 0, false, nil
	}
	<-ended
	g.release(ctx)
	g.cfg.Log.Info("no longer elected", "lock", g.Describe(), "term", led, "gave up", early, "stopping", ctx.Err() != nil)
	return led, early, nil
}
