package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// stall is a time in which a partition acknowledged nothing, between two
// acknowledgements.
type stall struct {
	part     int32
	from, to int64
}

// mostStalls are printed.
const mostStalls = 6

// stallsOf are the longest of a history, one for each partition and time. Topics that
// come and go are left out.
func stallsOf(h *history.History) []stall {
	out := allStalls(h)
	return out[:min(len(out), mostStalls)]
}

// allStalls are all, the longest first.
func allStalls(h *history.History) (out []stall) {
	acked := make([][]int64, len(h.Parts))
	for i := range h.Ops {
		if op := &h.Ops[i]; op.Kind == history.Produce && op.Outcome == history.OK && h.Procs[op.Proc].Role == history.Idempotent {
			acked[op.Part] = append(acked[op.Part], op.Complete)
		}
	}
	for part, at := range acked {
		slices.Sort(at)
		for i := 1; i < len(at); i++ {
			out = append(out, stall{int32(part), at[i-1], at[i]})
		}
	}
	slices.SortStableFunc(out, func(a, b stall) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	return out
}

// tellStalls prints the longest times that partitions acknowledged nothing, each with the
// faults that fell into it or had not long ended. Nothing here is judged: how long it may
// take depends on the machine.
func tellStalls(w io.Writer, h *history.History) {
	fmt.Fprintln(w, "longest without an acknowledgement")
	for _, s := range stallsOf(h) {
		var during []string
		for i := range h.Ops {
			if op := &h.Ops[i]; op.Kind == history.Fault && op.Invoke < s.to && op.Complete > s.from-int64(shortly) {
				during = append(during, fmt.Sprintf("%s (%s to %s)", op.Text, history.TellTime(op.Invoke), history.TellTime(op.Complete)))
			}
		}
		fmt.Fprintf(w, "  %6.1f s  %v, from %s: %s\n", time.Duration(s.to-s.from).Seconds(), h.Parts[s.part], history.TellTime(s.from), strings.Join(during, "; "))
	}
}

// shortly is how long a fault may have ended and still be named.
const shortly = 2 * time.Second
