package metalog

import (
	"slices"

	"kaas.dev/kaas/internal/substrate"
)

// whole checks what takes all epochs to tell.
func (r *verifier[S]) whole(epochs []substrate.Epoch) {
	stream, newest := r.out.Stream, r.out.Newest
	r.missingEpochs(epochs)
	for _, p := range r.gaps {
		// Removals are not fsynced one by one, so a crash may bring some back.
		if p.Less(r.base) {
			r.note(KindPruned, substrate.EntryPath(stream, p), "the entry before it is missing: pruned history")
		} else {
			r.fault(KindEntryMissing, substrate.EntryPath(stream, p), "the entry before it is missing")
		}
	}
	for _, e := range r.empty {
		// A claimant that went by an old listing may have plugged where history was pruned.
		// Nobody gets to epoch 0 once there is an entry above it.
		if e.Prev.Epoch > 0 && e.Prev.Less(r.base) && e.Prev.Less(r.oldest) {
			r.note(KindPruned, substrate.EntryPath(stream, e.Prev), "is empty: a plug in pruned history")
			continue
		}
		r.fault(KindEntryMissing, substrate.EntryPath(stream, e.Prev), "is empty, but %s continues from it", e.Pos)
	}
	r.successors()
	r.inBurnt()
	if n := len(epochs); n > 0 {
		r.emptied(epochs[n-1])
	}
	switch {
	case newest.IsZero():
		r.fault(KindStream, stream, "no entry in any epoch: the stream cannot be continued")
	case r.base.Epoch != newest.Epoch:
		r.fault(KindEntryMissing, substrate.EntryPath(stream, newest), "its epoch has no base: the stream cannot be continued")
	}
}

// missingEpochs names the epochs below the newest entry whose directories are gone: who
// claims an epoch sees to it that there is one of each number down to what it continues
// from, and none is ever removed. A stream that goes on from another one is born above 0. A
// burnt epoch's name need not be durable, so one that nothing continues from is no fault.
func (r *verifier[S]) missingEpochs(epochs []substrate.Epoch) {
	const most = 8
	missing := 0
	for e := r.birth; e <= r.out.Newest.Epoch; e++ {
		if _, there := slices.BinarySearch(epochs, e); there {
			continue
		}
		name := r.out.Stream + "/" + substrate.EpochName(e)
		if !slices.ContainsFunc(r.bases, func(b *Entry) bool { return b.Prev.Epoch == e }) {
			r.note(KindEpochMissing, name, "is missing; nothing that is there continues from it")
			continue
		}
		if missing++; missing <= most {
			r.fault(KindEpochMissing, name, "is missing below %s: epochs are never removed", r.out.Newest)
		}
	}
	if missing > most {
		r.fault(KindEpochMissing, r.out.Stream, "%d more epochs are missing", missing-most)
	}
}

// successors checks what each epoch continues from, from the newest down, and tells the
// entries that do not count.
func (r *verifier[S]) successors() {
	for i := len(r.bases) - 1; i >= 0; i-- {
		b := r.bases[i]
		name := substrate.EntryPath(r.out.Stream, b.Pos)
		if h, ok := r.heads[b.Prev.Epoch]; ok && b.Prev.Less(h) {
			r.fault(KindChain, name, "continues from %s, but %s was acknowledged", b.Prev, h)
		}
		prev := substrate.EntryPath(r.out.Stream, b.Prev)
		told := slices.ContainsFunc(r.out.Findings, func(f Finding) bool { return f.File == prev })
		if _, there := r.sums[b.Prev]; !there && !told && !r.plugs[b.Prev] && r.oldest.Less(b.Prev) {
			r.note(KindPruned, prev, "is missing, and %s continues from it: pruned history", b.Pos)
		}
		for _, p := range r.between(b.Prev, b.Pos) {
			r.note(KindDisowned, substrate.EntryPath(r.out.Stream, p), "is not part of the history: %s continues from %s", b.Pos, b.Prev)
		}
		for i > 0 && b.Prev.Less(r.bases[i-1].Pos) {
			i-- // disowned as a whole
		}
	}
}

// inBurnt tells the entries of burnt epochs. One is late, and a note, where a later owner left
// it out: a base that is there does so, or is newer while nothing that is there continues from
// it, when what left it out is pruned.
func (r *verifier[S]) inBurnt() {
	for _, e := range r.late {
		name := substrate.EntryPath(r.out.Stream, e.Pos)
		switch {
		case slices.ContainsFunc(r.out.Findings, func(f Finding) bool { return f.File == name && f.Kind == KindDisowned }):
		case e.Pos.Less(r.base) && !slices.ContainsFunc(r.bases, func(b *Entry) bool { return b.Prev == e.Pos }):
			r.note(KindDisowned, name, "is not part of the history: its epoch is nobody's, and nothing that is there continues from it")
		default:
			r.foreign(name, e, "")
		}
	}
}

// between are the entries above one position and below the epoch of another.
func (r *verifier[S]) between(prev, pos substrate.Position) (out []substrate.Position) {
	for p := range r.sums {
		if prev.Less(p) && p.Epoch < pos.Epoch {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b substrate.Position) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	return out
}

// emptied tells entries that have lost their bytes from plugs: only a claimant of a
// higher epoch plugs, and HEAD names only what was acknowledged.
func (r *verifier[S]) emptied(last substrate.Epoch) {
	for p := range r.plugs {
		if p.Epoch == last {
			r.fault(KindEntryMissing, substrate.EntryPath(r.out.Stream, p), "is empty, and no higher epoch was claimed, whose owner could have plugged it")
		}
	}
	newest := r.out.Newest
	if h, ok := r.heads[newest.Epoch]; ok && newest.Less(h) && (last > newest.Epoch || !r.plugs[h]) {
		r.fault(KindEntryMissing, substrate.EntryPath(r.out.Stream, h), "is empty or missing, but HEAD names it as acknowledged")
	}
}
