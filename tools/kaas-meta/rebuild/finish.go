package rebuild

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/google/uuid"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

// ErrRuns means that another process has claimed what we had: a broker runs.
var ErrRuns = errors.New("a broker runs on this volume: stop all of them, and run this again")

// ErrRan means that the volume has its new ID, and that a broker was told things meanwhile
// that the new metadata lacks.
var ErrRan = errors.New("the volume is restored, but a broker ran meanwhile: offsets that it took, and changes to topics, may be missing")

// meta is the metadata that is being built.
type meta struct {
	r   *run
	id  string // the new volume ID
	tmp string // where it is built
}

func (r *run) newMeta() (*meta, error) {
	m := &meta{r: r, id: uuid.NewString()}
	if r.opt.NewID != nil {
		m.id = r.opt.NewID()
	}
	if err := r.v.EnsureDir("meta"); err != nil {
		return nil, err
	}
	m.tmp = r.v.TempName("meta", r.s.ID())
	return m, r.v.Mkdir(m.tmp)
}

// dir makes a directory of shards.
func (m *meta) dir(name string) error { return m.r.v.Mkdir(path.Join(m.tmp, name)) }

// add builds a stream by its path below meta/<volume ID>.
func add[S any](m *meta, name string, sc *metalog.Schema[S], reason string, epoch substrate.Epoch, st S) error {
	return metalog.BuildFrom(m.r.v, path.Join(m.tmp, name), path.Join("meta", m.id, name), sc, reason, m.r.at, epoch, st)
}

// place puts the metadata where a volume of the new ID has it.
func (m *meta) place(dirs ...string) error {
	for _, d := range append(dirs, "") {
		if err := m.r.v.SyncDir(path.Join(m.tmp, d)); err != nil {
			return err
		}
	}
	made, err := m.r.v.Place(m.tmp, path.Join("meta", m.id))
	if err == nil && !made {
		err = fmt.Errorf("meta/%s is there already", m.id)
	}
	return err
}

// finish makes the new metadata count: steps 4 to 6.
func (r *run) finish(ctx context.Context, m *meta) error {
	if err := r.mine(ctx, ErrRuns); err != nil && !r.opt.breaks.noFirstCheck {
		return err
	}
	r.replacing = true
	if err := r.v.Reidentify(ctx, r.s.ID(), m.id); err != nil {
		return err
	}
	r.out.NewID = m.id
	if es, err := r.v.ListFresh("meta"); err == nil && slices.ContainsFunc(es, func(e substrate.DirEntry) bool { return e.Name == r.out.OldID }) {
		r.out.note("meta/%s is left as it was, for whoever wants to look; nothing needs it", r.out.OldID)
	}
	if !r.opt.breaks.noSealAgain {
		again, err := r.v.SealAll(ctx, r.s.ID())
		if err != nil {
			return fmt.Errorf("the volume is restored, but a broker that ran may go on: %w", err)
		}
		r.out.Sealed += again
	}
	if r.opt.breaks.noLastCheck {
		return nil
	}
	return r.mine(ctx, ErrRan)
}

// mine is nil if nobody has sealed our session, and other if somebody has.
func (r *run) mine(ctx context.Context, other error) error {
	err := r.s.Check(ctx)
	if errors.Is(err, substrate.ErrFenced) {
		return fmt.Errorf("%w: %w", other, err)
	}
	return err
}

// running tells that somebody has sealed our session, wherever that was met.
func running(err error) error {
	if errors.Is(err, substrate.ErrFenced) && !errors.Is(err, ErrRuns) && !errors.Is(err, ErrRan) {
		return fmt.Errorf("%w: %w", ErrRuns, err)
	}
	return err
}

// claimed is a stream that we own.
type claimed[S any] struct {
	w     *metalog.Writer[S]
	state S
	epoch substrate.Epoch
}

// claim claims a stream above all that it shows, by a margin.
func claim[S any](ctx context.Context, r *run, stream string, sc *metalog.Schema[S], margin int32) (c claimed[S], err error) {
	for e := substrate.Epoch(0); ; {
		next, err := metalog.NextEpoch(r.v, stream)
		if err != nil {
			return c, err
		}
		e = max(e+1, next+substrate.Epoch(margin)-1)
		w, err := metalog.Claim(ctx, r.s, stream, e, sc, metalog.Options{Node: -1, Now: r.opt.Now})
		if err == nil {
			return claimed[S]{w, w.Committed().State, e}, nil
		}
		if damaged(err) { // whoever has claimed above us meanwhile may have pruned what we look for
			if above, lerr := metalog.NextEpoch(r.v, stream); lerr == nil && above > e+1 {
				err = fmt.Errorf("%w: %v", ErrRuns, err)
			}
		}
		if !errors.Is(err, substrate.ErrEpochTaken) || ctx.Err() != nil {
			return c, err
		}
	}
}

// fold claims a stream for as long as we run, or only reads it where we are to change nothing.
func fold[S any](ctx context.Context, r *run, stream string, sc *metalog.Schema[S]) (st S, epoch substrate.Epoch, err error) {
	ok := loads(ctx, r, stream, sc)
	if r.opt.DryRun {
		upTo, _, err := r.stray(stream, ok)
		if err != nil {
			return st, 0, err
		}
		snap, err := metalog.ReadStateAt(ctx, r.v, stream, upTo, sc)
		return snap.State, upTo.Epoch, err
	}
	c, err := claimMended(ctx, r, stream, sc, 1, ok)
	return c.state, c.epoch, err
}

// claimMended claims a stream from which all that is stray is set aside. What was on its way
// may come when that is done, and is set aside then.
func claimMended[S any](ctx context.Context, r *run, stream string, sc *metalog.Schema[S], margin int32, ok usable) (c claimed[S], err error) {
	const tries = 4
	for range tries {
		if err = r.mend(stream, ok); err == nil {
			c, err = claim(ctx, r, stream, sc, margin)
		}
		if err == nil || !damaged(err) || ctx.Err() != nil {
			break
		}
		margin = 1
	}
	return c, err
}

func apply(c *projections.Cluster, fs []projections.Fact) (*projections.Cluster, error) {
	evs, err := projections.NewEvents(fs...)
	if err != nil {
		return nil, err
	}
	return projections.Apply(c, evs)
}
