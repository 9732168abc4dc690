package metalog

import (
	"path"

	"kaas.dev/kaas/internal/substrate"
)

// pruneSoon has history removed beside the publishing, after a commit, now and then.
func (w *Writer[S]) pruneSoon() {
	if w.opt.RetentionAge <= 0 && w.opt.RetentionEntries <= 0 {
		return
	}
	every := 64
	if w.opt.RetentionEntries > 0 {
		every = min(every, max(w.opt.RetentionEntries/4, 1))
	}
	if w.sincePrune++; w.sincePrune < every || w.covered.Epoch != w.epoch {
		return
	}
	w.mu.Lock()
	busy := w.mu.pruning
	w.mu.pruning = true
	w.mu.Unlock()
	if busy {
		return
	}
	w.sincePrune = 0
	covered := w.covered
	if !w.s.Go(func() { w.prune(covered); w.pruned() }) {
		w.pruned()
	}
}

func (w *Writer[S]) pruned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.pruning = false
}

// prune removes history that is older than the retention and older than covered, a
// base that a Check has covered: never that base, never anything after it, never a
// claim. Oldest first, so that what remains is a suffix. What fails is tried again at
// the next turn (rule 2).
func (w *Writer[S]) prune(covered substrate.Position) {
	all, err := Positions(w.v, w.stream)
	if err != nil {
		return
	}
	excess := 0
	if w.opt.RetentionEntries > 0 {
		excess = len(all) - w.opt.RetentionEntries
	}
	checked := false
	for i, p := range all {
		if !p.Less(covered) || w.ctx.Err() != nil {
			return
		}
		if i >= excess && !w.expired(p) {
			return
		}
		// Where the volume has come back from a snapshot, what is to be pruned may be the newest
		// that it has. Then this session is sealed, or gone.
		if !checked && w.s.Check(w.ctx) != nil {
			return
		}
		checked = true
		name := path.Join(w.stream, substrate.EpochName(p.Epoch), substrate.EntryName(p))
		if err := w.v.Remove(name); err != nil && !isNotExist(err) {
			return
		}
	}
}

func (w *Writer[S]) expired(p substrate.Position) bool {
	if w.opt.RetentionAge <= 0 {
		return false
	}
	e, plug, err := ReadEntry(w.v, w.stream, p)
	if plug {
		return true // an empty file tells nothing; what is above it decides
	}
	return err == nil && w.opt.Now().Sub(e.Time) > w.opt.RetentionAge
}
