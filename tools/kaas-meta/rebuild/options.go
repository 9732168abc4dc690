package rebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/substrate"
)

// Options of both. Zero fields have the defaults that their comments name.
type Options struct {
	// EpochMargin is by how much leader epochs go up; 16 where the volume was rolled back, 1
	// else.
	EpochMargin int32
	// MakeMissing has partitions made anew, empty, whose directories are gone.
	MakeMissing bool
	// Force rebuilds although there is metadata that can be read, and leaves it behind.
	Force    bool
	DryRun   bool                          // look only
	Parallel int                           // partitions at a time; 16
	Progress func(what string, n, all int) // is told of partitions that are done; may be nil
	NewID    func() string                 // makes the volume's ID; random ones
	Now      func() time.Time              // time.Now
	Log      *slog.Logger                  // slog.Default

	breaks breaks
}

// breaks takes single rules away, for the tests of the tests. early is a broker's, which
// looks at the ID before it opens a session, and not after.
type breaks struct{ noFirstCheck, noSealAgain, noLastCheck, early, noMend bool }

func (o Options) withDefaults(margin int32) Options {
	if o.EpochMargin < 1 {
		o.EpochMargin = margin
	}
	if o.Parallel < 1 {
		o.Parallel = 16
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Report is what was done, or would be.
type Report struct {
	OldID  string `json:"old_volume_id,omitempty"`
	NewID  string `json:"new_volume_id,omitempty"` // empty for a dry run
	DryRun bool   `json:"dry_run,omitempty"`
	// Sealed counts the sessions that were not sealed before: of processes that ended without
	// a successor, and of those that run.
	Sealed      int     `json:"sealed_sessions"`
	Topics      []Topic `json:"topics"`
	Partitions  int     `json:"partitions"`
	Groups      int     `json:"groups"`
	Txns        int     `json:"transactional_ids"`
	Aborted     int     `json:"aborted_transactions"`
	ProducerIDs int64   `json:"next_producer_id"`
	EpochMargin int32   `json:"leader_epoch_margin"`
	// Lost is what does not come back, or is left out, each in a line; Notes are other things to know.
	Lost  []string `json:"lost,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// Topic is a topic of the new metadata.
type Topic struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Partitions int               `json:"partitions"`
	Configs    map[string]string `json:"configs,omitempty"`
}

func (r *Report) lose(format string, a ...any) { r.Lost = append(r.Lost, fmt.Sprintf(format, a...)) }
func (r *Report) note(format string, a ...any) { r.Notes = append(r.Notes, fmt.Sprintf(format, a...)) }

// run is one call of RolledBack or Rebuild.
type run struct {
	v   *substrate.Volume
	opt Options
	s   *substrate.Session // of this attempt; nil in a dry run
	out Report
	at  time.Time
	led led        // partitions that are claimed
	mu  sync.Mutex // of led and out, where partitions are gone through side by side
	// replacing says that volume/id may have been replaced: from there on nothing is tried again.
	replacing bool
}

func newRun(v *substrate.Volume, opt Options) *run {
	return &run{v: v, opt: opt, at: opt.Now(), out: Report{OldID: v.ID, DryRun: opt.DryRun, EpochMargin: opt.EpochMargin}, led: led{}}
}

// attempt does a step under a session of its own, with all others sealed, and does it again
// where the volume refused, or a broker that runs has claimed above us meanwhile: that takes a
// while to come back. Each step is idempotent (rule 2).
func (r *run) attempt(ctx context.Context, step func(context.Context) error) (err error) {
	const tries = 5
	before := r.out
	for range tries {
		sealed := r.out.Sealed
		r.out = before // of a try that failed only that counts
		r.out.Sealed = sealed
		if err = r.begin(ctx); err == nil {
			err = running(step(ctx))
		}
		if r.s != nil {
			_ = r.s.Close(context.WithoutCancel(ctx))
		}
		if err == nil || r.replacing || damaged(err) || substrate.IsFull(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// begin opens the session and seals all others.
func (r *run) begin(ctx context.Context) error {
	if r.opt.DryRun {
		return nil
	}
	host, _ := os.Hostname() // for people
	s, err := r.v.OpenSession(substrate.Identity{Role: substrate.RoleController, NodeID: -1, Host: host, PID: os.Getpid(), Started: r.at})
	if err != nil {
		return err
	}
	r.s = s
	sealed, err := r.v.SealAll(ctx, s.ID())
	r.out.Sealed += sealed
	if err != nil {
		return err
	}
	return r.sweep()
}

// sweep removes what an earlier run had begun to build: its session is sealed by now.
func (r *run) sweep() error {
	es, err := r.v.ListFresh("meta")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range es {
		if strings.HasPrefix(e.Name, "~new~") {
			err = errors.Join(err, r.v.Discard(path.Join("meta", e.Name)))
		}
	}
	return err
}

// floor is above all producer IDs, and all epochs of brokers, that were ever given out, if
// fewer than a million a second were: it grows by that much with the clock, and so is above
// whatever an earlier floor led to. seen is the highest that the volume knows of.
func (r *run) floor(seen int64) int64 { return max(seen+1<<40, r.at.UnixMilli()<<10) }

// each runs f for 0 to n-1, several at a time, and tells of progress.
func (r *run) each(ctx context.Context, what string, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.opt.Parallel)
	done := make(chan struct{}, n)
	for i := range n {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := f(ctx, i)
			done <- struct{}{}
			r.opt.Progress(what, len(done), n)
			return err
		})
	}
	return g.Wait()
}
