package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	checker "kaas.dev/kaas/tools/kaas-meta/check"
)

func init() { settle = time.Millisecond } // nothing runs beside these tests

// TestVerify: sound, then each kind of file damaged in turn. Nothing is changed.
func TestVerify(t *testing.T) {
	dir := newVolume(t)
	out, err := run("--dir", dir, "verify")
	if err != nil || !strings.Contains(out, "sound") {
		t.Fatalf("%v: %s", err, out)
	}
	var files []string
	check(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Base(p) != substrate.HeadName {
			files = append(files, p)
		}
		return err
	}))
	for _, f := range files {
		old, err := os.ReadFile(f)
		check(t, err)
		if len(old) == 0 {
			continue // a plug
		}
		bad := bytes.Clone(old)
		bad[len(bad)-1] ^= 0x10
		check(t, os.WriteFile(f, bad, 0o644))
		rel, _ := filepath.Rel(dir, f)
		if out, err := run("--dir", dir, "verify"); !errors.Is(err, errFaults) || !strings.Contains(out, filepath.ToSlash(rel)+": ") {
			t.Errorf("one bit of %s flipped: %v\n%s", rel, err, out)
		}
		now, err := os.ReadFile(f)
		check(t, err)
		if !bytes.Equal(now, bad) {
			t.Errorf("verify changed %s", rel)
		}
		check(t, os.WriteFile(f, old, 0o644))
	}
}

// TestVerifyFindsEmptiedEntries: a file of no bytes is a plug only where somebody
// can have plugged.
func TestVerifyFindsEmptiedEntries(t *testing.T) {
	dir := newVolume(t)
	entries, err := filepath.Glob(filepath.Join(dir, "meta/*/cluster/*/*.snap"))
	check(t, err)
	for _, f := range entries {
		old, err := os.ReadFile(f)
		check(t, err)
		if len(old) == 0 {
			continue
		}
		check(t, os.WriteFile(f, nil, 0o644))
		rel, _ := filepath.Rel(dir, f)
		if out, err := run("--dir", dir, "verify"); !errors.Is(err, errFaults) || !strings.Contains(out, rel) {
			t.Errorf("%s emptied: %v\n%s", rel, err, out)
		}
		check(t, os.WriteFile(f, old, 0o644))
	}
}

// TestVerifyTells what to do, in the table and in JSON, and lists no end of findings only
// in the latter.
func TestVerifyTells(t *testing.T) {
	dir := newVolume(t)
	for i := range 2 * shownFindings {
		check(t, os.WriteFile(filepath.Join(dir, "stranger-"+strings.Repeat("x", i)), nil, 0o644))
	}
	gone, err := filepath.Glob(filepath.Join(dir, "topics/*/1"))
	check(t, err)
	check(t, os.RemoveAll(gone[0]))
	rel, _ := filepath.Rel(dir, gone[0])
	out, err := run("--dir", dir, "verify")
	if !errors.Is(err, errFaults) || strings.Count(out, "what to do: ") != 2 || strings.Count(out, "stranger-") != shownFindings ||
		!strings.Contains(out, "and 20 more") || strings.HasSuffix(out, "sound\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	has(t, out, "FAULT partition-missing: ", rel+": the cluster has orders-1", "what to do: "+checker.Kinds["partition-missing"].Advice)
	out, err = run("--dir", dir, "verify", "-o", "json")
	if !errors.Is(err, errFaults) {
		t.Error(err)
	}
	var r checker.Report
	check(t, json.Unmarshal([]byte(out), &r))
	if r.Faults != 1 || r.Notes != 2*shownFindings || len(r.Findings) != 1+2*shownFindings || r.Partitions != 1 || r.Topics != 1 {
		t.Errorf("%+v", r)
	}
	if f := r.Findings[0]; f.File != rel || f.Kind != "partition-missing" || !f.Fault || f.Advice == "" {
		t.Errorf("%+v", f)
	}
}

// TestProgressLine: the bar grows to its end and no further.
func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		p    checker.Progress
		want string
	}{
		{checker.Progress{}, strings.Repeat("·", 30) + " 0 of 0"},
		{checker.Progress{Done: 1, Units: 2}, strings.Repeat("█", 15) + strings.Repeat("·", 15) + " 1 of 2"},
		{checker.Progress{Done: 9, Units: 3, Read: 3 << 20, Again: true}, strings.Repeat("█", 30) + " 9 of 3, 3 MiB of segments, looking again at what seemed wrong"},
	} {
		if got := progressLine(c.p); got != c.want {
			t.Errorf("%+v is shown as %q, want %q", c.p, got, c.want)
		}
	}
}
