package check

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// Options say how a volume is checked. Zero fields have the defaults that their comments name.
type Options struct {
	Deep bool // read every batch of every segment
	// Parallel is how many units are read side by side; 16. Each holds a piece of a file.
	Parallel int
	// Settle is how long to wait before the second look at what seemed wrong; 200 ms. Each
	// look after that is twice as late.
	Settle time.Duration
	// Progress is told how far the check is, from several goroutines, and must not wait.
	Progress func(Progress)
}

// Progress is how far a check is.
type Progress struct {
	Done, Units int   // of those known so far
	Read        int64 // bytes of segments
	Again       bool  // what seemed wrong is looked at again
}

// looks is how many times a unit must show a fault before it is told.
const looks = 4

// Run checks the volume. v's ID is not looked at: the check reads it itself. The error is
// ctx's, or says that there is no kaas volume; whatever else is wrong is a finding.
func Run(ctx context.Context, v *substrate.Volume, opt Options) (*Report, error) {
	if opt.Parallel <= 0 {
		opt.Parallel = 16
	}
	if opt.Settle <= 0 {
		opt.Settle = 200 * time.Millisecond
	}
	if opt.Progress == nil {
		opt.Progress = func(Progress) {}
	}
	e := &engine{v: &substrate.Volume{FS: readOnly{v.FS}}, opt: opt, sessions: map[string]sessionInfo{}}
	first, err := e.volume()
	if err != nil {
		return nil, err
	}
	if err := e.everything(ctx); err != nil {
		return nil, err
	}
	if err := e.lookAgain(ctx); err != nil {
		return nil, err
	}
	return e.report(first), nil
}

// engine is one run.
type engine struct {
	v   *substrate.Volume
	opt Options

	sessions map[string]sessionInfo // by ID; complete before others read it
	view     *projections.Cluster   // nil while it cannot be read
	met      []*met                 // every unit, as it was last seen
	strange  atomic.Bool            // the cluster stream has names that it may hang to open
	missing  missing                // sessions

	done, units atomic.Int64
	read        atomic.Int64
	again       atomic.Bool
}

// unit is a part of the volume that is looked at in one go, and again where a look has
// seen a fault.
type unit interface {
	look(ctx context.Context, e *engine) *seen
}

// met is a unit with what was seen of it.
type met struct {
	unit
	seen *seen
	// stays are the faults of all looks so far, nil before the first.
	stays map[fault]bool
	// once are files that could not be read at some look. A disk that fails now and then
	// is worth a note.
	once map[fault]metalog.Finding
}

// fault tells one from another, from look to look.
type fault struct{ kind, file string }

// round looks at units, in a bounded pool, and then judges what was seen by a cluster's
// state that is read after it.
func (e *engine) round(ctx context.Context, units []*met) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(e.opt.Parallel)
	for _, m := range units {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			m.seen = m.look(ctx, e)
			e.done.Add(1)
			e.tell()
			return ctx.Err()
		})
	}
	return g.Wait()
}

// first looks at units for the first time.
func (e *engine) first(ctx context.Context, units ...unit) ([]*met, error) {
	ms := make([]*met, len(units))
	for i, u := range units {
		ms[i] = &met{unit: u}
	}
	e.met = append(e.met, ms...)
	e.units.Add(int64(len(units)))
	return ms, e.round(ctx, ms)
}

func (e *engine) tell() {
	e.opt.Progress(Progress{int(e.done.Load()), int(e.units.Load()), e.read.Load(), e.again.Load()})
}

// everything looks at the whole volume once.
func (e *engine) everything(ctx context.Context) error {
	if _, err := e.first(ctx, sessionsUnit{}); err != nil {
		return err
	}
	units := []unit{rootUnit{}, electionUnit{}, topicsUnit{}}
	if e.v.ID != "" { // otherwise nobody can tell which metadata counts
		if _, err := e.first(ctx, e.clusterUnit()); err != nil {
			return err
		}
		units = append(units, metaUnit{})
		e.readView(ctx)
	}
	for len(units) > 0 {
		ms, err := e.first(ctx, units...)
		if err != nil {
			return err
		}
		units = nil
		for _, m := range ms {
			units = append(units, m.seen.below...)
			m.seen.below = nil
		}
	}
	return nil
}

// readView reads the cluster's state. Where it cannot be had, that is a finding of its
// stream, and nothing is compared with it.
func (e *engine) readView(ctx context.Context) {
	e.view = nil
	if e.strange.Load() {
		return
	}
	if snap, _, err := metalog.ReadState(ctx, e.v, clusterStream(e.v), projections.ClusterSchema()); err == nil {
		e.view = snap.State
	}
}

// lookAgain keeps of the faults those that stay.
func (e *engine) lookAgain(ctx context.Context) error {
	suspects := e.met
	for i := range looks {
		if i > 0 {
			if err := e.round(ctx, suspects); err != nil {
				return err
			}
		}
		e.readView(ctx)
		suspects = e.judge(suspects)
		if len(suspects) == 0 || i == looks-1 {
			return nil
		}
		e.again.Store(true)
		e.units.Add(int64(len(suspects)))
		if !sleep.For(ctx, e.opt.Settle<<i) {
			return ctx.Err()
		}
	}
	return nil
}

// judge settles what was seen of units, and returns those with faults that have stayed.
func (e *engine) judge(units []*met) (suspects []*met) {
	for _, m := range units {
		if m.seen.judge != nil && e.view != nil {
			m.seen.judge(m.seen, e.view)
			m.seen.judge = nil
		}
		stays := map[fault]bool{}
		for _, f := range m.seen.findings {
			k := fault{f.Kind, f.File}
			if f.Fault && (m.stays == nil || m.stays[k]) {
				stays[k] = true
			}
			if f.Kind == metalog.KindUnreadable {
				m.remember(k, f)
			}
		}
		m.stays = stays
		if len(stays) > 0 {
			suspects = append(suspects, m)
		}
	}
	return suspects
}

func (m *met) remember(k fault, f metalog.Finding) {
	if m.once == nil {
		m.once = map[fault]metalog.Finding{}
	}
	f.Fault = false
	f.Detail += " (not at every look)"
	m.once[k] = f
}

// told are the findings of a unit that have stayed.
func (m *met) told() (out []metalog.Finding) {
	for _, f := range m.seen.findings {
		if !f.Fault || m.stays[fault{f.Kind, f.File}] {
			out = append(out, f)
		}
	}
	for k, f := range m.once {
		if !m.stays[k] {
			out = append(out, f)
		}
	}
	return out
}

// report gathers what has stayed.
func (e *engine) report(first *seen) *Report {
	r := &Report{VolumeID: e.v.ID, Deep: e.opt.Deep, Findings: []Finding{}}
	listed := map[string]int{}
	r.add(first.findings, listed)
	for _, m := range e.met {
		r.Counts.add(m.seen.counts)
		r.add(m.told(), listed)
	}
	r.add(e.missingSessions(), listed)
	r.sort()
	return r
}
