package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// tally counts the operations of one kind.
type tally struct{ ok, failed, unknown, records int64 }

// summary prints how many operations there were, by what did them and what came of them.
func summary(w io.Writer, h *history.History) {
	counts, faults, last := map[string]*tally{}, map[string]int{}, int64(0)
	for i := range h.Ops {
		op := &h.Ops[i]
		last = max(last, op.Complete)
		if op.Kind == history.Fault {
			faults[faultName(op.Text)]++
			continue
		}
		add(counts, what(h, op), op)
	}
	took := time.Duration(last)
	fmt.Fprintf(w, "\nseed %d, %v, %d entries in the history (%.0f a minute), %d processes, %d partitions\n",
		h.Seed, took.Round(time.Second), len(h.Ops), float64(len(h.Ops))/took.Minutes(), len(h.Procs), len(h.Parts))
	fmt.Fprintf(w, "%-28s %10s %8s %8s %10s\n", "operations", "ok", "failed", "unknown", "records")
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t := counts[name]
		fmt.Fprintf(w, "%-28s %10d %8d %8d %10d\n", name, t.ok, t.failed, t.unknown, t.records)
	}
	errorsOf(w, h)
	tellStalls(w, h)
	fmt.Fprintln(w, "faults")
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(w, "  %-50s %d\n", name, faults[name])
	}
}

var numbers = regexp.MustCompile(`\d+`)

// errorsOf prints what producers and members were told, by kind, with the numbers left out.
func errorsOf(w io.Writer, h *history.History) {
	count := map[string]int{}
	for i := range h.Ops {
		if op := &h.Ops[i]; slices.Contains([]history.Kind{history.Produce, history.Commit, history.TxnEnd}, op.Kind) && op.Outcome != history.OK {
			count[fmt.Sprintf("%s, %v: %.90s", what(h, op), op.Outcome, numbers.ReplaceAllString(op.Text, "N"))]++
		}
	}
	fmt.Fprintln(w, "not acknowledged")
	for _, text := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(w, "  %6d  %s\n", count[text], text)
	}
}

func add(counts map[string]*tally, name string, op *history.Op) {
	t := counts[name]
	if t == nil {
		t = &tally{}
		counts[name] = t
	}
	n := int64(1)
	switch op.Kind {
	case history.Read, history.Process:
		t.records += int64(op.Count)
	case history.Observe:
		n = int64(op.Count)
	}
	switch op.Outcome {
	case history.OK:
		t.ok += n
	case history.Failed:
		t.failed += n
	default:
		t.unknown += n
	}
}

var roles = map[history.Role]string{history.Idempotent: "idempotent", history.Plain: "plain", history.Tail: "tail", history.Reread: "re-reader", history.Final: "final", history.Transactional: "transactional"}

func what(h *history.History, op *history.Op) string {
	switch op.Kind {
	case history.Produce:
		return "produce, " + roles[h.Procs[op.Proc].Role]
	case history.Read:
		if h.Procs[op.Proc].Committed {
			return "read, committed, " + roles[h.Procs[op.Proc].Role]
		}
		return "read, " + roles[h.Procs[op.Proc].Role]
	case history.Init:
		return "transactional ID, fence"
	case history.TxnEnd:
		if h.Procs[op.Proc].Group > 0 {
			return "transaction, " + ofGroup(h, op)
		}
		return "transaction"
	case history.Process:
		return "process, " + ofGroup(h, op)
	case history.Commit:
		return "commit, " + ofGroup(h, op)
	case history.Own:
		return "have, " + ofGroup(h, op)
	case history.Observe:
		return "ask, " + strings.TrimPrefix(op.Field.String(), "the ")
	}
	return "topics and notes"
}

func ofGroup(h *history.History, op *history.Op) string {
	return "group " + h.Groups[h.Procs[op.Proc].Group].Name
}

var ofWhom = regexp.MustCompile(`\b(broker|host) \d+`)

// faultName is what a fault was, without who it was about, for how long and what went wrong.
func faultName(text string) string {
	text, _, _ = strings.Cut(text, " for ")
	text, _, _ = strings.Cut(text, ": ")
	return ofWhom.ReplaceAllString(text, "$1 N")
}

// acknowledged is how many records were.
func acknowledged(h *history.History) (n int) {
	for i := range h.Ops {
		if h.Ops[i].Kind == history.Produce && h.Ops[i].Outcome == history.OK {
			n++
		}
	}
	return n
}
