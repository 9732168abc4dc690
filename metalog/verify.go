package metalog

import (
	"errors"
	"fmt"

	"kaas.dev/kaas/internal/substrate"
)

// Finding is something that Verify found wrong, or worth a word.
type Finding struct {
	File   string `json:"file"`
	Fault  bool   `json:"fault"` // false: explained, nothing to do
	Detail string `json:"detail"`
}

// Verification is the result of Verify.
type Verification struct {
	Stream   string             `json:"stream"`
	Epochs   int                `json:"epochs"`
	Entries  int                `json:"entries"`
	Plugs    int                `json:"plugs"`
	Newest   substrate.Position `json:"newest"`
	Findings []Finding          `json:"findings,omitempty"`
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
func Verify[S any](v *substrate.Volume, stream string, sc *Schema[S]) (*Verification, error) {
	epochs, err := v.ListEpochs(stream)
	if err != nil {
		return nil, err
	}
	r := &verifier[S]{v: v, sc: sc, out: Verification{Stream: stream, Epochs: len(epochs)}, sums: map[substrate.Position]uint32{}, plugs: map[substrate.Position]bool{}}
	for _, e := range epochs {
		r.epoch(e)
	}
	for _, p := range r.gaps {
		// Removals are not fsynced one by one, so a crash may bring some back.
		f := Finding{File: substrate.EntryPath(stream, p), Fault: !p.Less(r.base), Detail: "the entry before it is missing"}
		if !f.Fault {
			f.Detail += ": pruned history"
		}
		r.out.Findings = append(r.out.Findings, f)
	}
	for _, e := range r.empty {
		// A claimant that went by an old listing may have plugged where history was pruned.
		// Nobody gets to epoch 0 once there is an entry above it.
		if e.Prev.Epoch > 0 && e.Prev.Less(r.base) && e.Prev.Less(r.oldest) {
			r.note(substrate.EntryPath(stream, e.Prev), "is empty: a plug in pruned history")
			continue
		}
		r.fault(substrate.EntryPath(stream, e.Prev), "is empty, but %s continues from it", e.Pos)
	}
	if n := len(epochs); n > 0 {
		r.emptied(epochs[n-1])
	}
	if r.out.Newest.IsZero() {
		r.fault(stream, "no entry in any epoch: the stream cannot be continued; restore it with kaas-meta restore")
	}
	if !r.out.Newest.IsZero() && r.base.Epoch != r.out.Newest.Epoch {
		r.fault(substrate.EntryPath(stream, r.out.Newest), "its epoch has no base: the stream cannot be continued")
	}
	return &r.out, nil
}

type verifier[S any] struct {
	v    *substrate.Volume
	sc   *Schema[S]
	out  Verification
	sums map[substrate.Position]uint32
	base substrate.Position   // the newest
	gaps []substrate.Position // entries whose predecessor in the epoch is missing
	// empty are the entries whose predecessor is empty, and oldest is the oldest that is not.
	empty  []*Entry
	oldest substrate.Position
	// plugs are the empty files, each a plug or an entry that has lost its bytes.
	plugs map[substrate.Position]bool
}

func (r *verifier[S]) fault(file, format string, a ...any) {
	r.out.Findings = append(r.out.Findings, Finding{file, true, fmt.Sprintf(format, a...)})
}

func (r *verifier[S]) note(file, format string, a ...any) {
	r.out.Findings = append(r.out.Findings, Finding{file, false, fmt.Sprintf(format, a...)})
}

func (r *verifier[S]) epoch(e substrate.Epoch) {
	stream := r.out.Stream
	name := substrate.ClaimPath(stream, e)
	var claim substrate.ClaimBody
	if b, err := r.v.ReadFile(name); err != nil {
		r.fault(name, "%v", err)
	} else if claim, err = substrate.DecodeClaim(name, b); err != nil {
		r.fault(name, "%v", cause(err))
	}
	ps, err := r.v.ListEntries(stream, e)
	if err != nil {
		r.fault(stream+"/"+substrate.EpochName(e), "%v", err)
		return
	}
	var cur *loaded[S]
	for _, p := range ps {
		cur = r.entry(p, claim, cur)
	}
}

// entry checks one entry against the fold before it, nil if there is none, and
// returns the fold with it.
func (r *verifier[S]) entry(p substrate.Position, claim substrate.ClaimBody, cur *loaded[S]) *loaded[S] {
	stream := r.out.Stream
	name := substrate.EntryPath(stream, p)
	e, plug, err := ReadEntry(r.v, stream, p)
	switch {
	case plug:
		r.out.Plugs++
		r.plugs[p] = true
		return cur
	case err != nil:
		r.fault(name, "%v", cause(err))
		return nil
	}
	r.out.Entries++
	r.out.Newest = p
	r.sums[p] = e.Sum
	if e.Session != claim.Session {
		r.fault(name, "written by session %s, but the epoch belongs to %s", e.Session, claim.Session)
	}
	if r.plugs[e.Prev] {
		r.empty = append(r.empty, e)
	}
	if r.oldest.IsZero() {
		r.oldest = p
	}
	if sum, have := r.sums[e.Prev]; have && sum != e.PrevSum {
		r.fault(name, "continues from %s with checksum %08x, but that entry has %08x", e.Prev, e.PrevSum, sum)
	}
	for _, ev := range e.Events {
		if !r.sc.Known(ev) {
			r.note(name, "holds an event of type %q, which this build does not know", ev.Type)
		}
	}
	if cur != nil && e.Pos.Seq != cur.Pos.Seq+1 {
		r.gaps = append(r.gaps, p)
		cur = nil
	}
	if cur != nil {
		if err := cur.apply(stream, r.sc, e); err != nil {
			r.fault(name, "%v", cause(err))
			return nil
		}
	}
	if e.Base {
		r.base = p
		return r.checkBase(name, e, cur)
	}
	return cur
}

// emptied tells entries that have lost their bytes from plugs: only a claimant of a
// higher epoch plugs, and HEAD names only what was acknowledged.
func (r *verifier[S]) emptied(last substrate.Epoch) {
	for p := range r.plugs {
		if p.Epoch == last {
			r.fault(substrate.EntryPath(r.out.Stream, p), "is empty, and no higher epoch was claimed, whose owner could have plugged it")
		}
	}
	newest := r.out.Newest
	if h, ok := r.v.ReadHead(r.out.Stream, newest.Epoch); ok && newest.Less(h) && (last > newest.Epoch || !r.plugs[h]) {
		r.fault(substrate.EntryPath(r.out.Stream, h), "is empty or missing, but HEAD names it as acknowledged")
	}
}

// checkBase decodes a base's state and compares it with the fold of what is before it.
func (r *verifier[S]) checkBase(name string, e *Entry, cur *loaded[S]) *loaded[S] {
	st, err := r.sc.Decode(e.State)
	if err != nil {
		r.fault(name, "state: %v", err)
		return nil
	}
	if cur != nil {
		want, err := r.sc.Encode(cur.State)
		if err == nil && string(want) != string(e.State) {
			r.fault(name, "its state is not the fold of the entries before it")
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
