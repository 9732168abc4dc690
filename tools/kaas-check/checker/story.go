package checker

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// mostFaults is how many faults are told in a story, those nearest to its end.
const mostFaults = 6

// Story writes the operations that show a violation, in order, and the faults among them.
func Story(w io.Writer, h *history.History, v Violation) {
	fmt.Fprintf(w, "%s: %s\n", strings.ToUpper(v.Rule), v.Text)
	from, to := int64(1)<<62, int64(0)
	for _, i := range v.Ops {
		from, to = min(from, h.Ops[i].Invoke), max(to, h.Ops[i].Complete)
	}
	lines := slices.Clone(v.Ops)
	lines = append(lines, faults(h, from, to)...)
	slices.SortStableFunc(lines, func(a, b int) int { return cmp.Compare(h.Ops[a].Complete, h.Ops[b].Complete) })
	for _, i := range lines {
		op := &h.Ops[i]
		fmt.Fprintf(w, "  %s to %s  %s\n", history.TellTime(op.Invoke), history.TellTime(op.Complete), h.Tell(op, v.Offset))
	}
}

// faults are those that were under way at some time from the first to the last
// operation of a story, and the last one before it.
func faults(h *history.History, from, to int64) (out []int) {
	before := -1
	for i := range h.Ops {
		op := &h.Ops[i]
		switch {
		case op.Kind != history.Fault || op.Invoke > to:
		case op.Complete < from:
			before = i
		default:
			out = append(out, i)
		}
	}
	if len(out) == 0 && before >= 0 {
		return []int{before}
	}
	if n := len(out); n > mostFaults {
		out = out[n-mostFaults:]
	}
	return out
}

// Print writes what was found: the counts by rule and the shortest story.
func (r *Report) Print(w io.Writer, h *history.History) {
	for _, part := range r.NotFinal {
		fmt.Fprintf(w, "%v has no final reading: whether something was lost there is not known\n", h.Parts[part])
	}
	fmt.Fprintf(w, "violations: %d\n", r.Total())
	for _, rule := range slices.Sorted(maps.Keys(r.Count)) {
		fmt.Fprintf(w, "  %-15s %d\n", rule, r.Count[rule])
	}
	if len(r.Violations) > 0 {
		fmt.Fprintln(w, "\nThe shortest story:")
		Story(w, h, r.Violations[0])
	}
}
