package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// A short run with faults of whole brokers finds nothing, and what it keeps is
// checked again with the same result.
func TestRunShortly(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a broker and loads it for seconds")
	}
	var dir string
	var out strings.Builder
	lacks := func() []string {
		return slices.DeleteFunc([]string{"violations: 0", "kill -9 of broker 1", "produce, idempotent", "commit, group uniform", "transactional ID, fence"},
			func(want string) bool { return strings.Contains(out.String(), want) })
	}
	// A machine that is busy with other things may take longer until all has happened.
	for d := 6 * time.Second; d == 6*time.Second || len(lacks()) > 0 && d < 2*time.Minute; d *= 3 {
		dir = t.TempDir()
		out.Reset()
		s := settings{duration: d, every: 2 * time.Second, seed: 3, brokers: 1, faults: "kill,pause-taken,graceful", dir: dir, keep: true, rate: 50, groups: true, txns: true}
		if err := run(t.Context(), s, &out); err != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	if l := lacks(); len(l) > 0 {
		t.Errorf("the output lacks %q:\n%s", l, out.String())
	}
	kept, err := filepath.Glob(filepath.Join(dir, "run-*", historyFile))
	if err != nil || len(kept) != 1 {
		t.Fatal(kept, err)
	}
	var again strings.Builder
	for _, verb := range []string{"verify", "dump"} {
		cmd := verifyCommand(&again)
		if verb == "dump" {
			cmd = dumpCommand(&again)
		}
		cmd.SetArgs(kept)
		if err := cmd.Execute(); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if !strings.Contains(again.String(), "violations: 0") || !strings.Contains(again.String(), `"process":"idempotent producer 1"`) {
		t.Error("verify and dump show other things")
	}
}

// The longest stall of an idempotent producer is told first, with the fault in it.
func TestStalls(t *testing.T) {
	at := func(s int64) int64 { return s * int64(time.Second) }
	h := &history.History{Procs: []history.Proc{{Name: "p", Role: history.Idempotent}, {Name: "n", Role: history.Other}}, Parts: []history.Part{{Topic: "a"}, {Topic: "b"}}}
	for _, s := range []int64{1, 2, 9, 10} {
		h.Ops = append(h.Ops, history.Op{Kind: history.Produce, Outcome: history.OK, Complete: at(s)})
	}
	h.Ops = append(h.Ops,
		history.Op{Kind: history.Produce, Outcome: history.OK, Part: 1, Complete: at(1)},
		history.Op{Kind: history.Produce, Outcome: history.Unknown, Part: 1, Complete: at(3)},
		history.Op{Kind: history.Produce, Outcome: history.OK, Part: 1, Complete: at(4)},
		history.Op{Kind: history.Fault, Proc: 1, Part: -1, Invoke: at(5), Complete: at(6), Text: "trouble"})
	got := stallsOf(h)
	if len(got) != 4 || got[0] != (stall{0, at(2), at(9)}) || got[1] != (stall{1, at(1), at(4)}) {
		t.Error(got)
	}
	var out strings.Builder
	tellStalls(&out, h)
	lines := strings.Split(out.String(), "\n")
	if len(lines) < 3 || !strings.Contains(lines[1], "7.0 s  a/0, from") || !strings.Contains(lines[1], "trouble") || strings.Contains(lines[2], "trouble") {
		t.Error(out.String())
	}
}

func TestRefusals(t *testing.T) {
	for _, s := range []settings{
		{faults: "flood"}, {without: "no-brakes", faults: "none", dir: t.TempDir()}, {faults: "power"}, {lab: true, faults: "takeover"}, {lab: true, without: "no-seal"},
	} {
		if err := run(t.Context(), s, &strings.Builder{}); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}

func TestFaultNames(t *testing.T) {
	for text, want := range map[string]string{
		"broker 2 is stopped for 1.5s": "broker N is stopped", "kill -9 of broker 13": "kill -9 of broker N", "the volume is full for 3s": "the volume is full",
	} {
		if got := faultName(text); got != want {
			t.Errorf("%q is called %q", text, got)
		}
	}
}
