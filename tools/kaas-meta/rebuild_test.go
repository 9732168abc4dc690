package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kaas.dev/kaas/tools/kaas-meta/rebuild"
)

// What does not go together is refused as a wrong command line, and nothing is changed.
func TestRolledBackRefuses(t *testing.T) {
	dir := newVolume(t)
	for _, args := range [][]string{
		{"restore", "--volume-rolled-back", "--at", "1-1"},
		{"restore", "--volume-rolled-back", "--prune"},
		{"restore", "--volume-rolled-back", "backup.kaas"},
		{"restore", "--volume-rolled-back", "--epoch-margin", "0"},
		{"rebuild", "--epoch-margin", "20000"},
	} {
		_, err := run(append([]string{"--dir", dir}, args...)...)
		if code := exitCode(err); code != 2 {
			t.Errorf("%v: code %d, %v", args, code, err)
		}
	}
	if _, err := run("--dir", dir, "rebuild"); !errors.Is(err, rebuild.ErrThere) {
		t.Errorf("metadata that is there is rebuilt: %v", err)
	}
	if _, err := run("--dir", t.TempDir(), "rebuild"); err == nil {
		t.Error("a directory that is no volume is rebuilt")
	}
	out, err := run("--dir", dir, "dump")
	check(t, err)
	has(t, out, "cluster_id: test-cluster")
}

// Both print what they did, and say the new ID in JSON as well.
func TestRebuiltReports(t *testing.T) {
	dir := newVolume(t)
	out, err := run("--dir", dir, "restore", "--volume-rolled-back", "--epoch-margin", "2", "-o", "json")
	check(t, err)
	var r rebuild.Report
	check(t, json.Unmarshal([]byte(out), &r))
	if r.OldID != "test-cluster" || r.NewID == "" || r.Partitions != 2 || r.EpochMargin != 2 {
		t.Errorf("the report is %+v", r)
	}
	check(t, os.RemoveAll(filepath.Join(dir, "meta")))
	check(t, os.RemoveAll(filepath.Join(dir, "volume")))
	out, err = run("--dir", dir, "rebuild", "--dry-run")
	check(t, err)
	has(t, out, "1 topics with 2 partitions", "would be restored", "does not come back: ACLs")
	out, err = run("--dir", dir, "rebuild")
	check(t, err)
	has(t, out, "1 topics with 2 partitions", "it was lost")
	out, err = run("--dir", dir, "verify")
	check(t, err)
	has(t, out, "sound")
}
