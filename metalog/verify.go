package metalog

import (
	"context"
	"errors"
	"fmt"
	"path"

	"kaas.dev/kaas/internal/substrate"
)

// Verification is the result of Verify.
type Verification struct {
	Stream   string             `json:"stream"`
	Epochs   int                `json:"epochs"`
	Entries  int                `json:"entries"`
	Plugs    int                `json:"plugs"`
	Newest   substrate.Position `json:"newest"` // entry
	Findings []Finding          `json:"findings,omitempty"`

	// Claimed is the newest epoch, with or without an entry, and Owner its session.
	Claimed substrate.Epoch `json:"-"`
	Owner   string          `json:"-"`
	// Closed: the newest entry is one after which its epoch's owner writes nothing.
	Closed bool `json:"-"`
	// Owners are the sessions that claims name, each with its newest epoch; Others the names
	// that are no stream's.
	Owners map[string]substrate.Epoch `json:"-"`
	Others []Other                    `json:"-"`
}

// Other is a name in a stream's directories that is neither an epoch's nor in one of
// its files' form: temporary, or nobody's.
type Other struct {
	Dir string
	substrate.DirEntry
}

// Faults counts the findings that are faults.
func (r *Verification) Faults() int {
	n := 0
	for _, f := range r.Findings {
		if f.Fault {
			n++
		}
	}
	return n
}

// Verify reads every claim and every retained entry of a stream, checks all
// checksums, the chain within each epoch and from each epoch's base to what it
// continues from, and folds every suffix. It changes nothing.
//
// An owner may be publishing and pruning meanwhile. What it prunes is no fault, but a
// look at what changes may still show one that is none: who finds a fault looks again.
func Verify[S any](v *substrate.Volume, stream string, sc *Schema[S]) (*Verification, error) {
	r, _, err := VerifyState(context.Background(), v, stream, sc)
	return r, err
}

// VerifyState is Verify, and returns the fold of the newest entry too, nil where that
// cannot be had. The error is ctx's, or that there is no such stream.
func VerifyState[S any](ctx context.Context, v *substrate.Volume, stream string, sc *Schema[S]) (*Verification, *Snapshot[S], error) {
	r := &verifier[S]{v: v, sc: sc, out: Verification{Stream: stream, Claimed: -1, Owners: map[string]substrate.Epoch{}},
		sums: map[substrate.Position]uint32{}, plugs: map[substrate.Position]bool{}, heads: map[substrate.Epoch]substrate.Position{}, burnt: map[substrate.Epoch]bool{}}
	epochs, err := r.listEpochs()
	if err != nil {
		return nil, nil, err
	}
	if len(epochs) > 0 {
		r.lowest = epochs[0]
	}
	for _, e := range epochs {
		if err := r.epoch(ctx, e); err != nil {
			return nil, nil, err
		}
	}
	r.whole(epochs)
	if r.newest == nil {
		return &r.out, nil, nil
	}
	return &r.out, &r.newest.Snapshot, nil
}

type verifier[S any] struct {
	v      *substrate.Volume
	sc     *Schema[S]
	out    Verification
	newest *loaded[S]                    // the fold of the newest entry
	sums   map[substrate.Position]uint32 // of entries
	base   substrate.Position            // the newest
	lowest substrate.Epoch               // that there is
	birth  substrate.Epoch               // the epoch that was there from the stream's birth on
	gaps   []substrate.Position          // entries whose predecessor in the epoch is missing
	bases  []*Entry                      // the first entries of epochs, without their states
	heads  map[substrate.Epoch]substrate.Position
	// burnt are the epochs that are nobody's, and late the entries there. Where a volume was
	// rolled back, who claimed the epoch in the history that is lost may write there.
	burnt map[substrate.Epoch]bool
	late  []*Entry
	// empty are the entries whose predecessor is empty, and oldest is the oldest that is not.
	empty  []*Entry
	oldest substrate.Position
	// plugs are the empty files, each a plug or an entry that has lost its bytes.
	plugs map[substrate.Position]bool
}

func (r *verifier[S]) fault(kind, file, format string, a ...any) {
	r.out.Findings = append(r.out.Findings, Finding{kind, file, true, fmt.Sprintf(format, a...)})
}

func (r *verifier[S]) note(kind, file, format string, a ...any) {
	r.out.Findings = append(r.out.Findings, Finding{kind, file, false, fmt.Sprintf(format, a...)})
}

// epoch checks one epoch: its claim, and its entries in order.
func (r *verifier[S]) epoch(ctx context.Context, e substrate.Epoch) error {
	dir := path.Join(r.out.Stream, substrate.EpochName(e))
	files, err := r.listEpoch(e)
	if isNotExist(err) {
		return nil // with its whole stream: epochs are never removed
	}
	if err != nil {
		r.fault(KindUnreadable, dir, "%v", err)
		return nil
	}
	claim := r.claim(e, files)
	r.out.Claimed, r.out.Owner, r.out.Closed = e, claim.Session, false
	if claim.Session != "" {
		r.out.Owners[claim.Session] = e
	}
	var cur *loaded[S]
	for at := 0; at < len(files.entries); at += readAhead {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, m := range r.read(files.entries[at:min(at+readAhead, len(files.entries))]) {
			cur = r.entry(m, claim, cur)
		}
	}
	if r.out.Newest.Epoch == e && !r.out.Newest.IsZero() {
		r.newest = cur
		r.out.Closed = cur != nil && cur.closed
	}
	return nil
}

func (r *verifier[S]) claim(e substrate.Epoch, files epochFiles) (claim substrate.ClaimBody) {
	name := substrate.ClaimPath(r.out.Stream, e)
	switch {
	case files.noClaim:
		return claim
	case !files.claim && len(files.entries) == 0:
		r.fault(KindEpochEmpty, path.Dir(name), "holds neither a claim nor an entry: epochs appear with their claim, and keep it")
		return claim
	case !files.claim:
		r.fault(KindClaimMissing, name, "is missing beside %d entries: nobody can tell whose they are", len(files.entries))
		return claim
	}
	b, err := r.v.ReadFile(name)
	if err == nil {
		claim, err = substrate.DecodeClaim(name, b)
	}
	if err != nil {
		r.fault(kindOf(err, KindClaim, KindClaimMissing), name, "%v", cause(err))
	} else if claim.Session == "" && e == r.lowest {
		r.birth = e
	} else if claim.Session == "" {
		r.burnt[e] = true
	}
	return claim
}

// met is an entry file as it was read.
type met struct {
	pos  substrate.Position
	e    *Entry
	plug bool
	err  error
}

// entry checks one entry against the fold before it, nil if there is none, and
// returns the fold with it.
func (r *verifier[S]) entry(m met, claim substrate.ClaimBody, cur *loaded[S]) *loaded[S] {
	name := substrate.EntryPath(r.out.Stream, m.pos)
	switch {
	case m.plug:
		r.out.Plugs++
		r.plugs[m.pos] = true
		return cur
	case m.err != nil && r.pruned(m.pos, m.err):
		return nil
	case m.err != nil:
		r.fault(kindOf(m.err, KindEntry, KindEntryMissing), name, "%v", cause(m.err))
		return nil
	}
	e := m.e
	r.out.Entries++
	r.out.Newest = m.pos
	r.sums[m.pos] = e.Sum
	r.lone(name, e, claim)
	if cur != nil && e.Pos.Seq != cur.Pos.Seq+1 {
		r.gaps = append(r.gaps, m.pos)
		cur = nil
	}
	if cur != nil {
		if cur.closed {
			r.fault(KindChain, name, "follows %s, which closed the epoch", cur.Pos)
		}
		if err := cur.apply(r.out.Stream, r.sc, e); err != nil {
			r.fault(KindChain, name, "%v", cause(err))
			return nil
		}
	}
	if e.Base {
		r.base = m.pos
		return r.checkBase(name, e, cur)
	}
	return cur
}

// lone checks of an entry what does not take the fold before it.
func (r *verifier[S]) lone(name string, e *Entry, claim substrate.ClaimBody) {
	switch {
	case e.Session == claim.Session:
	case r.burnt[e.Pos.Epoch]:
		r.late = append(r.late, e)
	default:
		r.foreign(name, e, claim.Session)
	}
	if r.plugs[e.Prev] {
		r.empty = append(r.empty, e)
	}
	if r.oldest.IsZero() {
		r.oldest = e.Pos
	}
	if sum, have := r.sums[e.Prev]; have && sum != e.PrevSum {
		r.fault(KindChain, name, "continues from %s with checksum %08x, but that entry has %08x", e.Prev, e.PrevSum, sum)
	}
	if e.Pos.Seq == 1 {
		first := *e
		first.State, first.Events = nil, nil
		r.bases = append(r.bases, &first)
	}
	for _, ev := range e.Events {
		if !r.sc.Known(ev) {
			r.note(KindEvent, name, "holds an event of type %q, which this build does not know", ev.Type)
		}
	}
}

func (r *verifier[S]) foreign(name string, e *Entry, owner string) {
	r.fault(KindOwner, name, "written by session %q, but the epoch belongs to %q", e.Session, owner)
}

// checkBase decodes a base's state and compares it with the fold of what is before it.
func (r *verifier[S]) checkBase(name string, e *Entry, cur *loaded[S]) *loaded[S] {
	st, err := r.sc.Decode(e.State)
	if err != nil {
		r.fault(KindEntry, name, "state: %v", err)
		return nil
	}
	if cur != nil {
		want, err := r.sc.Encode(cur.State)
		if err == nil && string(want) != string(e.State) {
			r.fault(KindState, name, "its state is not the fold of the entries before it")
		}
	}
	l := &loaded[S]{base: e.Pos, stateBytes: len(e.State)}
	l.State, l.Pos, l.sum, l.closed = st, e.Pos, e.Sum, e.Closed
	return l
}

// cause drops the file name from damage, which the finding names already.
func cause(err error) error {
	var d *substrate.DamageError
	if errors.As(err, &d) {
		return fmt.Errorf("damaged at byte %d: %s", d.Offset, d.Cause)
	}
	return err
}
