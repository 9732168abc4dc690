// Package checker finds in a history what must not have happened. It is a pure
// function, so a history that was kept can be checked again.
//
// # Rules
//
//	lost          an acknowledged record is not there in the final reading
//	vanished      a record that was read is not there in the final reading
//	two-values    an offset had two records
//	two-offsets   a record was at two offsets
//	duplicate     the same, of an idempotent producer
//	reordered     records of an idempotent producer are not in the order they were sent; or what was
//	              sent after an acknowledgement is before the acknowledged record
//	refused-read  a record that was certainly refused was read
//	unsent        a record was read that nobody sent there
//	gap           a reader passed over an offset at or above the log start
//	read-back     a reader got an offset that it was beyond
//	stuck         a reader did not come to the end
//	end-back, watermark-back, start-back, epoch-back
//	              a number went back, as one process saw it
//	stale-end     the end, asked for after something was acknowledged, read or told, was below it
//	epoch-order   along a log the leader epoch falls
//	two-epochs    a record had two leader epochs
//	stable-back, stale-stable
//	              the same of the last stable offset, of which read_committed tells, too
//	told          somebody was told of lost data, or a broker ended by itself
//
// Of a consumer group:
//
//	commit-gone    nothing was committed, after something had been
//	commit-back    what was committed fell, as anybody was told
//	commit-unmade  an offset was told that nobody had committed
//	old-generation a commit was taken of a generation older than that of an acknowledged one
//	read-again     a member began before what was committed when it was given the partition
//	skipped        a record was passed over by the whole group
//	group-stuck    a group did not come to the end
//	two-owners     two members had a partition at once, and the session of the first had not ended
//
// Of transactions, and readers at isolation level read_committed:
//
//	aborted-read   one got a record of a transaction that was not committed
//	hidden         one passed over a record of a committed one
//	torn           of one whose outcome is not known, a record was read and another passed over
//	early-read     a record was read before the end of its transaction was asked for
//	open           in the end a transaction had not ended
//	fenced-write, fenced-commit
//	               it was acknowledged what a producer did after another was given its transactional ID
//	epoch-reused   an ID was given an epoch that it had had, or a lower one
//	id-forgotten   an ID was given another producer ID
//	id-reused      two had one producer ID
//	copied-twice   two committed transactions have processed a record (and skipped, if none has)
//
// What is committed of offsets in a transaction that was not counts as never committed. So a
// transaction of unknown outcome shows by its records whether its offsets have to be there.
//
// A record below the log start may be gone. An operation of unknown outcome may have
// happened, at any time from its beginning on, or not.
package checker

import (
	"cmp"
	"slices"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// Violation is something that must not have happened. Ops are the operations that show
// it, as indexes into the history.
type Violation struct {
	Rule   string
	Part   int32 // -1 for none
	Offset int64 // -1 for none
	Text   string
	Ops    []int
}

// Report is what was found.
type Report struct {
	Violations []Violation    // those of records first, of these the shortest stories; at most mostOfRule of each rule and partition
	Count      map[string]int // by rule, all of them
	NotFinal   []int32        // partitions without a final reading, where nothing can be found to be lost
}

// Total is how many violations there are.
func (r *Report) Total() (n int) {
	for _, c := range r.Count {
		n += c
	}
	return n
}

// OfRecords is how many there are that are seen in records and offsets, without those
// that somebody was told of.
func (r *Report) OfRecords() (n int) {
	for rule, c := range r.Count {
		n += c * (1 - indirect(rule))
	}
	return n
}

// mostOfRule is how many violations of one rule are kept for each partition: one cause has
// thousands of effects.
const mostOfRule = 5

// Check checks a whole history.
func Check(h *history.History) *Report {
	rep := &Report{Count: map[string]int{}}
	parts := make([]*partition, len(h.Parts))
	for i := range parts {
		parts[i] = &partition{h: h, id: int32(i), final: -1, lastEnd: -1, lastStable: -1, sent: map[uint64]int{}, kept: map[string]int{}}
	}
	for i := range h.Ops {
		op := &h.Ops[i]
		if op.Part >= 0 && !ofGroup(op) {
			parts[op.Part].add(i, op)
		}
		if op.Kind == history.Note && op.Outcome == history.Failed {
			rep.Count["told"]++
			rep.Violations = append(rep.Violations, Violation{"told", op.Part, -1, h.Tell(op, -1), []int{i}})
		}
	}
	comeLate(h, parts)
	ts := transactionsOf(h, parts)
	for _, p := range parts {
		p.txns = ts
		p.check()
	}
	ts.check() // after the readers
	for _, v := range ts.found {
		if rep.Count[v.Rule]++; rep.Count[v.Rule] <= mostOfRule {
			rep.Violations = append(rep.Violations, v)
		}
	}
	for _, s := range sharesOf(h, parts) {
		s.check()
	}
	for _, p := range parts {
		for rule, n := range p.kept {
			rep.Count[rule] += n
		}
		rep.Violations = append(rep.Violations, p.found...)
		if !p.readFinally() && len(p.sent) > 0 {
			rep.NotFinal = append(rep.NotFinal, p.id)
		}
	}
	slices.SortStableFunc(rep.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(indirect(a.Rule), indirect(b.Rule)), cmp.Compare(len(a.Ops), len(b.Ops)), cmp.Compare(weight(a.Rule), weight(b.Rule)), cmp.Compare(complete(h, a), complete(h, b)))
	})
	return rep
}

// indirect is 1 of a rule that says that something went wrong, but not with which record.
func indirect(rule string) int {
	if rule == "told" || rule == "stuck" || rule == "group-stuck" || rule == "open" {
		return 1
	}
	return 0
}

// weight puts what hurts most first, among stories of one length.
func weight(rule string) int {
	for i, r := range []string{"lost", "aborted-read", "hidden", "torn", "vanished", "two-values", "duplicate", "two-offsets", "reordered", "refused-read", "unsent", "gap", "stale-end", "commit-gone", "commit-back", "skipped", "copied-twice", "fenced-commit", "fenced-write", "two-owners", "old-generation"} {
		if r == rule {
			return i
		}
	}
	return 100
}

// complete is when a violation was complete.
func complete(h *history.History, v Violation) (at int64) {
	for _, i := range v.Ops {
		at = max(at, h.Ops[i].Complete)
	}
	return at
}
