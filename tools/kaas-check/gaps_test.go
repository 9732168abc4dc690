package main

import (
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// Each fault is told with the longest stall in it or shortly after, and against what is allowed.
func TestGaps(t *testing.T) {
	at := func(ms int64) int64 { return ms * int64(time.Millisecond) }
	h := &history.History{Procs: []history.Proc{{Name: "p", Role: history.Idempotent}, {Name: "n", Role: history.Other}}, Parts: []history.Part{{Topic: "a"}}}
	for ms := int64(0); ms < 50_000; ms += 100 {
		if ms > 11_000 && ms < 11_400 || ms > 30_000 && ms < 32_500 {
			continue
		}
		h.Ops = append(h.Ops, history.Op{Kind: history.Produce, Outcome: history.OK, Complete: at(ms)})
	}
	fault := func(from, to int64, text string) {
		h.Ops = append(h.Ops, history.Op{Kind: history.Fault, Proc: 1, Part: -1, Invoke: at(from), Complete: at(to), Text: text})
	}
	fault(11_100, 11_200, "pod of broker 1 is deleted")
	fault(31_000, 32_000, "pod of broker 2 is deleted without grace: a kill")
	fault(60_000, 61_000, "every broker is stopped")
	gaps, peace := gapsOf(h)
	if len(gaps) != 2 || peace.to-peace.from != at(100) {
		t.Fatal(gaps, peace)
	}
	var out strings.Builder
	tellGaps(&out, h)
	for _, want := range []string{"in peace 100ms", " 0.400 s  pod of broker 1", "longer than 300ms, 1 times", " 2.500 s  pod of broker 2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}
