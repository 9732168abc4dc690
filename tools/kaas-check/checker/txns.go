package checker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// transactions are all of a history, by number, and their producers.
type transactions struct {
	h     *history.History
	parts []*partition
	by    map[int32]*transaction
	fence map[int32]int // by process, the first Init that certainly fenced it
	found []Violation   // of no partition
}

// transaction is one, and what readers of isolation level read_committed made of it.
type transaction struct {
	end    int         // its TxnEnd, or -1
	seen   *sighting   // that they read first
	passed *sighting   // a record of it that one passed over
	fenced int         // the Init before which its end was not asked for, or -1
	op     *history.Op // of end
}

// sighting is where a record of a transaction was read, or not.
type sighting struct {
	part   int32
	offset int64
	sent   int // its Produce
	op     int // the Read
}

func transactionsOf(h *history.History, parts []*partition) *transactions {
	ts := &transactions{h: h, parts: parts, by: map[int32]*transaction{}, fence: fencesOf(h)}
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Txn == 0 {
			continue
		}
		t := ts.by[op.Txn]
		if t == nil {
			t = &transaction{end: -1, fenced: -1}
			ts.by[op.Txn] = t
		}
		if op.Kind == history.TxnEnd {
			t.end, t.op = i, op
			if f, ok := ts.fence[op.Proc]; ok && op.Invoke > h.Ops[f].Complete {
				t.fenced = f
			}
		}
	}
	return ts
}

// fencesOf is, for each process with a transactional ID, the Init of another with the same
// that was answered first of those asked for after its own was answered.
func fencesOf(h *history.History) map[int32]int {
	own, out := map[int32]int{}, map[int32]int{}
	byID := initsOf(h)
	for _, inits := range byID {
		for _, i := range inits {
			if _, ok := own[h.Ops[i].Proc]; !ok {
				own[h.Ops[i].Proc] = i
			}
		}
		for _, i := range inits {
			for _, j := range inits {
				a, b := &h.Ops[i], &h.Ops[j]
				if own[a.Proc] != i || a.Proc == b.Proc || b.Invoke <= a.Complete {
					continue
				}
				if f, ok := out[a.Proc]; !ok || b.Complete < h.Ops[f].Complete {
					out[a.Proc] = j
				}
			}
		}
	}
	return out
}

// initsOf are the Inits of each transactional ID, in the order in which they were answered.
func initsOf(h *history.History) map[string][]int {
	out := map[string][]int{}
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Init && op.Outcome == history.OK {
			id := h.Procs[op.Proc].TxnID
			out[id] = append(out[id], i)
		}
	}
	for _, inits := range out {
		slices.SortStableFunc(inits, func(a, b int) int { return cmp.Compare(h.Ops[a].Complete, h.Ops[b].Complete) })
	}
	return out
}

// asked is what is known from who asked for the end: one that a fenced producer asked for
// must not be a commit, whatever it was told.
func (t *transaction) asked() history.Outcome {
	switch {
	case t.fenced >= 0:
		return history.Failed
	case t.op == nil:
		return history.Unknown
	}
	return t.op.Outcome
}

// outcome is asked, or where that is unknown what readers have seen.
func (t *transaction) outcome() history.Outcome {
	got := t.asked()
	switch {
	case got != history.Unknown || t.seen != nil == (t.passed != nil):
		return got
	case t.seen != nil:
		return history.OK
	}
	return history.Failed
}

// outcomeOf is outcome by number; what is in none counts at once.
func (ts *transactions) outcomeOf(txn int32) history.Outcome {
	if t := ts.by[txn]; t != nil {
		return t.outcome()
	}
	return history.OK
}

// look takes the record at an offset as a reader of read_committed read it, or passed over it.
// It is false for what is in no transaction, and so may not be passed over.
func (ts *transactions) look(p *partition, offset int64, value uint64, read int, passed bool) bool {
	sent, ok := p.sent[value]
	if !ok {
		return history.IsMarker(value)
	}
	t := ts.by[ts.h.Ops[sent].Txn]
	if t == nil {
		return false
	}
	s := &sighting{p.id, offset, sent, read}
	switch {
	case passed && t.passed == nil:
		t.passed = s
	case !passed && (t.seen == nil || ts.h.Ops[read].Complete < ts.h.Ops[t.seen.op].Complete):
		t.seen = s
	}
	return true
}

// check judges the transactions, when all readers have been looked at.
func (ts *transactions) check() {
	for _, id := range slices.Sorted(maps.Keys(ts.by)) {
		ts.by[id].check(ts, id)
	}
	ts.checkFenced()
	ts.checkProducers()
}

func (t *transaction) check(ts *transactions, id int32) {
	told := func(rule string, s *sighting, more int, format string, a ...any) {
		ts.parts[s.part].violate(rule, s.offset, witnesses(s.sent, t.end, s.op, more), format, a...)
	}
	got := t.asked()
	switch {
	case got == history.OK && t.passed != nil:
		told("hidden", t.passed, -1, "transaction %d was committed, and a reader of committed records passed over one of it at offset %d", id, t.passed.offset)
	case got == history.Failed && t.seen != nil:
		told("aborted-read", t.seen, t.fenced, "transaction %d was not committed, and a reader of committed records got one of it at offset %d", id, t.seen.offset)
	case got == history.Unknown && t.seen != nil && t.passed != nil:
		told("torn", t.seen, t.passed.op, "of transaction %d readers of committed records got offset %d, and passed over %d of %v", id, t.seen.offset, t.passed.offset, ts.h.Parts[t.passed.part])
	}
	if t.seen != nil && t.op != nil && got != history.Failed && ts.h.Ops[t.seen.op].Complete < t.op.Invoke {
		told("early-read", t.seen, -1, "a reader of committed records got offset %d before the end of transaction %d was asked for", t.seen.offset, id)
	}
}

// checkFenced wants nothing to be taken of a producer, in a transaction, that it did after
// it was fenced.
func (ts *transactions) checkFenced() {
	for i := range ts.h.Ops {
		op := &ts.h.Ops[i]
		f, ok := ts.fence[op.Proc]
		if !ok || op.Txn == 0 || op.Outcome != history.OK || op.Invoke <= ts.h.Ops[f].Complete {
			continue
		}
		switch op.Kind {
		case history.Produce:
			ts.parts[op.Part].violate("fenced-write", op.Offset, []int{f, i}, "%s was acknowledged a record at offset %d after it had been fenced", ts.h.Name(op.Proc), op.Offset)
		case history.TxnEnd:
			ts.violate("fenced-commit", f, i, "%s committed after it had been fenced", ts.h.Name(op.Proc))
		}
	}
}

// violate keeps a violation that is of no partition.
func (ts *transactions) violate(rule string, a, b int, format string, args ...any) {
	ts.found = append(ts.found, Violation{Rule: rule, Part: -1, Offset: -1, Text: fmt.Sprintf(format, args...), Ops: []int{a, b}})
}

// checkProducers wants a transactional ID to keep its producer ID, which nobody else has, and
// to get a higher epoch with each Init. No run uses all epochs up.
func (ts *transactions) checkProducers() {
	byID, of := initsOf(ts.h), map[uint64]int{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		for n, j := range byID[id] {
			b := &ts.h.Ops[j]
			if i, ok := of[b.Value]; ok && ts.h.Procs[ts.h.Ops[i].Proc].TxnID != id {
				ts.violate("id-reused", i, j, "producer %d is that of two transactional IDs", b.Value)
			}
			of[b.Value] = j
			for _, i := range byID[id][:n] {
				switch a := &ts.h.Ops[i]; {
				case b.Invoke <= a.Complete:
				case a.Value != b.Value:
					ts.violate("id-forgotten", i, j, "transactional ID %q is producer %d after it was %d", id, b.Value, a.Value)
				case b.Epoch <= a.Epoch:
					ts.violate("epoch-reused", i, j, "transactional ID %q has epoch %d after %d", id, b.Epoch, a.Epoch)
				}
			}
		}
	}
}
