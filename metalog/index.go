package metalog

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/substrate"
)

// Status is what became of an entry.
type Status string

// An entry that is in the history of the newest one is committed. What a sealed
// owner wrote beyond what its successor continued from never counted. The newest
// entry of a sealed owner without a successor's base is not decided yet; those before
// it are, for an owner goes on only when a Check has covered what it wrote. Nor is anything
// decided, as far as one can see, below a base that is pruned or cannot be read.
const (
	StatusCommitted Status = "committed"
	StatusDisowned  Status = "disowned"
	StatusUndecided Status = "undecided"
)

// Index is what listings tell of a stream's retained history: the positions, and what
// became of each. Beyond the names it reads one entry an epoch and the newest one. It
// is of the moment at which it was made, and changes nothing. The zero value is that of a
// stream without entries.
type Index struct {
	Stream string
	// Taken are the claims above the newest entry: epochs that have an owner, who has
	// published nothing yet. Ascending.
	Taken []Takeover

	v         *substrate.Volume
	positions []substrate.Position
	newest    int                        // 1 + the number of the newest that is not empty; 0 without one
	undecided bool                       // the newest is
	limits    map[substrate.Epoch]uint64 // an epoch's newest committed sequence; absent: all of it is disowned
	known     substrate.Epoch            // nothing is known of the epochs below
}

// Takeover is a claim.
type Takeover struct {
	Epoch   substrate.Epoch
	Session string
}

// ReadIndex lists a stream.
func ReadIndex(ctx context.Context, v *substrate.Volume, stream string) (*Index, error) {
	return ReadIndexFrom(ctx, v, stream, 0)
}

// ReadIndexFrom lists what a stream has from an epoch on, for those who know what is before.
func ReadIndexFrom(ctx context.Context, v *substrate.Volume, stream string, from substrate.Epoch) (*Index, error) {
	epochs, err := v.ListEpochs(stream)
	if err != nil {
		return nil, err
	}
	below, _ := slices.BinarySearch(epochs, from)
	epochs = epochs[below:]
	x := &Index{Stream: stream, v: v, limits: map[substrate.Epoch]uint64{}}
	lists := make([][]substrate.Position, len(epochs))
	bases := make([]*Header, len(epochs)) // of the epochs whose first entry is retained
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(readAhead)
	for i, e := range epochs {
		g.Go(func() (err error) {
			if err := gctx.Err(); err != nil {
				return err
			}
			if lists[i], err = v.ListEntries(stream, e); err != nil || len(lists[i]) == 0 || lists[i][0].Seq != 1 {
				return err
			}
			// One that is damaged is told by whoever reads the entry.
			if h, plug, err := ReadHeader(v, stream, lists[i][0]); err == nil && !plug {
				bases[i] = h
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	x.positions = slices.Concat(lists...)
	if err := x.findNewest(); err != nil {
		return nil, err
	}
	x.settle(epochs, lists, bases)
	return x, x.takeovers(epochs)
}

// findNewest finds the newest entry and whether it counts. The session is looked at after
// the entry: the rule that a Reader lives by.
func (x *Index) findNewest() error {
	for i := len(x.positions) - 1; i >= 0; i-- {
		h, plug, err := ReadHeader(x.v, x.Stream, x.positions[i])
		if plug || isNotExist(err) {
			continue
		}
		x.newest = i + 1
		var damage *substrate.DamageError
		if errors.As(err, &damage) {
			return nil // an entry all the same; whoever reads it is told
		}
		if err != nil || h.Session == "" {
			return err
		}
		unsealed, err := x.v.Unsealed(h.Session)
		x.undecided = !unsealed
		return err
	}
	return nil
}

// settle walks down from the newest entry: each epoch's base names what it
// continues from, and what lies above that is disowned. Below a base that cannot be read
// nothing is known.
func (x *Index) settle(epochs []substrate.Epoch, lists [][]substrate.Position, bases []*Header) {
	if x.newest == 0 {
		return
	}
	limit := x.Newest()
	for i := len(epochs) - 1; i >= 0; i-- {
		e := epochs[i]
		if e > limit.Epoch || len(lists[i]) == 0 {
			continue
		}
		x.known = e
		if e < limit.Epoch { // what the base above names is pruned
			x.known++
			return
		}
		x.limits[e] = limit.Seq
		if bases[i] == nil {
			return
		}
		limit = bases[i].Prev
	}
	x.known = 0
}

// takeovers reads the claims above the newest entry.
func (x *Index) takeovers(epochs []substrate.Epoch) error {
	for _, e := range epochs {
		if x.newest == 0 || e <= x.Newest().Epoch {
			continue
		}
		name := substrate.ClaimPath(x.Stream, e)
		b, err := x.v.ReadFile(name)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		claim, err := substrate.DecodeClaim(name, b)
		if err == nil && claim.Session != "" { // a damaged one says nothing; verify names it
			x.Taken = append(x.Taken, Takeover{e, claim.Session})
		}
	}
	return nil
}

// Len is the number of entry files, plugs included.
func (x *Index) Len() int { return len(x.positions) }

// At returns the position of number i, the oldest being 0.
func (x *Index) At(i int) substrate.Position { return x.positions[i] }

// Newest is the newest entry, zero where there is none.
func (x *Index) Newest() substrate.Position {
	if x.newest == 0 {
		return substrate.Position{}
	}
	return x.positions[x.newest-1]
}

// NewestCommitted is the newest entry that is known to count, zero where there is none.
func (x *Index) NewestCommitted() substrate.Position {
	i := x.committedBelow(len(x.positions))
	if i < 0 {
		return substrate.Position{}
	}
	return x.positions[i]
}

// Find returns the number of the first file that is at p or above, and whether it is at p.
func (x *Index) Find(p substrate.Position) (int, bool) {
	return sort.Find(len(x.positions), func(i int) int {
		switch {
		case p.Less(x.positions[i]):
			return -1
		case x.positions[i].Less(p):
			return 1
		}
		return 0
	})
}

// Status is what became of an entry at p, if there is one. A plug is as disowned as what
// it keeps away.
func (x *Index) Status(p substrate.Position) Status {
	limit, ok := x.limits[p.Epoch]
	switch {
	case p.Epoch < x.known:
		return StatusUndecided
	case !ok || p.Seq > limit:
		return StatusDisowned
	case x.undecided && p == x.Newest():
		return StatusUndecided
	}
	return StatusCommitted
}

// committedBelow is the number of the newest committed file below number i, -1 if none.
func (x *Index) committedBelow(i int) int {
	for i--; i >= 0; i-- {
		if x.Status(x.positions[i]) == StatusCommitted {
			return i
		}
	}
	return -1
}

// After is the number of the first entry that was written after a time, Len where there
// is none. It goes by the clocks of the writers, of the committed entries alone, and reads
// the heads of few entries. Where clocks went back, it finds one of the places at which
// the history crosses the time.
func (x *Index) After(ctx context.Context, t time.Time) (int, error) {
	lo, hi := 0, len(x.positions) // what is below lo is not after t, and from hi on all is
	for lo < hi {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		mid := lo + (hi-lo)/2
		i, at, err := x.timed(mid, lo)
		switch {
		case err != nil:
			return 0, err
		case i < lo: // none of lo to mid tells a time
			lo = mid + 1
		case at.After(t):
			hi = i
		default:
			lo = mid + 1
		}
	}
	return lo, nil
}

// timed is the newest committed entry from number lo to i, with its time. What is pruned,
// empty or damaged tells none. Its number is below lo where there is none.
func (x *Index) timed(i, lo int) (int, time.Time, error) {
	for i = x.committedBelow(i + 1); i >= lo; i = x.committedBelow(i) {
		h, plug, err := ReadHeader(x.v, x.Stream, x.positions[i])
		var damage *substrate.DamageError
		switch {
		case plug, isNotExist(err), errors.As(err, &damage):
			continue
		case err != nil:
			return 0, time.Time{}, err
		}
		return i, h.Time, nil
	}
	return -1, time.Time{}, nil
}

// CommittedAt is the newest committed entry that was written at a time or before it, zero
// where none is retained.
func (x *Index) CommittedAt(ctx context.Context, t time.Time) (substrate.Position, error) {
	n, err := x.After(ctx, t)
	if err != nil {
		return substrate.Position{}, err
	}
	i, _, err := x.timed(n-1, 0)
	if err != nil || i < 0 {
		return substrate.Position{}, err
	}
	return x.positions[i], nil
}
