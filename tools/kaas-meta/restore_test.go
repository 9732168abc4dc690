package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/tools/kaas-meta/restore"
)

func TestRestoreOfAGroup(t *testing.T) {
	dir := newGroupsVolume(t)
	out, err := run("--dir", dir, "restore", "--at", "1-1", "--group", "billing", "--dry-run")
	check(t, err)
	has(t, out, "groups/05: to be restored from 1-1", "over 1-3", `group "billing": 1 offset(s), 1 member(s) join anew`,
		"billing orders-0 42 41", "left out 1 offset(s) of group \"billing\": topic "+unknownID.String()+" is gone",
		"offset 41 is above the log's end, 0: its consumer goes by auto.offset.reset", "dry run: nothing was changed")
	if strings.Contains(out, "sealed") {
		t.Errorf("its owner has closed it, and is sealed:\n%s", out)
	}
	out, err = run("--dir", dir, "restore", "--at", "1-1", "--group", "billing")
	check(t, err)
	has(t, out, "groups/05 is restored, as 2-1")
	out, err = run("--dir", dir, "groups", "billing")
	check(t, err)
	has(t, out, "Empty", "orders 0 41")
	out, err = run("--dir", dir, "log", "--stream", "groups/05")
	check(t, err)
	has(t, out, "restored from 1-1", "shard of groups restored from 1-1 of 2026-11-29T12:00:00Z")
	out, err = run("--dir", dir, "restore", "--at", "1-1", "--group", "billing")
	check(t, err)
	has(t, out, "there is nothing to restore")
	_, err = run("--dir", dir, "verify")
	check(t, err)
}

func TestRestoreByTopic(t *testing.T) {
	dir := newGroupsVolume(t)
	out, err := run("--dir", dir, "restore", "--at", "1-1", "--streams", "groups/05", "--topic", unknownID.String(), "--dry-run", "-o", "json")
	check(t, err)
	var got restoreShown
	check(t, json.Unmarshal([]byte(out), &got))
	if s := got.Plan.Streams; !got.DryRun || got.Done != nil || len(s) != 1 || s[0].Changes || s[0].Then != "1-1" || len(s[0].LeftOut) != 1 {
		t.Errorf("%s", out)
	}
}

func TestBackup(t *testing.T) {
	dir, file := newGroupsVolume(t), filepath.Join(t.TempDir(), "saved")
	out, err := run("--dir", dir, "backup", file)
	check(t, err)
	has(t, out, "cluster 3-2", "groups/05 1-3", "it holds no secrets")
	fi, err := os.Stat(file)
	check(t, err)
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", fi.Mode())
	}
	if _, err := run("--dir", dir, "backup", file); err == nil {
		t.Error("written over a file")
	}
	out, err = run("--dir", dir, "backup", file+"2", "--streams", "groups/05", "--at", "1-1", "-o", "json")
	check(t, err)
	var shown backupShown
	check(t, json.Unmarshal([]byte(out), &shown))
	if len(shown.Streams) != 1 || shown.Streams[0].Position != "1-1" || shown.Secrets == nil {
		t.Errorf("%s", out)
	}
	has(t, mustRun(t, "--dir", dir, "restore", file), "there is nothing to restore")
	has(t, mustRun(t, "--dir", dir, "restore", file+"2", "--group", "billing"), "groups/05 is restored, as 2-1")
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(args...)
	check(t, err)
	return out
}

func TestRestoreRefusals(t *testing.T) {
	dir, tmp := newGroupsVolume(t), t.TempDir()
	file := filepath.Join(tmp, "saved")
	mustRun(t, "--dir", dir, "backup", file, "--streams", "cluster")
	data, err := os.ReadFile(file)
	check(t, err)
	data[len(data)/2] ^= 1
	check(t, os.WriteFile(file+"-damaged", data, 0o600))
	check(t, syscall.Mkfifo(file+"-pipe", 0o600))
	before := tree(t, dir)
	for args, want := range map[string]string{
		"restore":                  "say to what state",
		"restore --at 1-1 " + file: "not both",
		"restore --at 9-9":         "9-9",
		"restore --at 1-1 --streams cluster,groups":           "a position is one of a single stream",
		"restore --at 1-1 --streams topics/orders/0":          "is not restored",
		"restore --at 1-1 --streams cluster --group billing":  "is to be restored whole",
		"restore --at 1-1 --streams groups/05 --topic nosuch": `there is no topic "nosuch"`,
		"restore " + file + "-damaged":                        "damaged at byte",
		"restore " + file + "-missing":                        "no such file",
		"restore " + file + "-pipe":                           "no regular file",
		"restore --at 1-1 --streams groups/05 --group biling": `there is no group "biling"`,
		"timeline --html " + file + "-pipe":                   "no regular file",
		"restore " + file + " --streams groups/05":            "has no groups/05",
		"restore --at 1h --group nobody --dry-run":            "nobody has owned",
		"backup " + filepath.Join(tmp, "no", "such"):          "directory of",
		"backup " + file + "3 --streams groups/11":            "groups/11",
	} {
		if out, err := run(append([]string{"--dir", dir}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q\n%s", args, err, want, out)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("what was refused has left something behind:\n%s\nbefore:\n%s", after, before)
	}
}

// A file of another volume is taken only where this one was that volume, or somebody says so.
func TestRestoreOfAnotherVolumesFile(t *testing.T) {
	dir, file := newGroupsVolume(t), filepath.Join(t.TempDir(), "saved")
	mustRun(t, "--dir", dir, "backup", file, "--streams", "cluster")
	b, err := restore.Read(file)
	check(t, err)
	b.Volume = "earlier"
	check(t, b.Write(file+"2"))
	if _, err := run("--dir", dir, "restore", file+"2"); err == nil || !strings.Contains(err.Error(), "--from-volume earlier") {
		t.Errorf("%v", err)
	}
	has(t, mustRun(t, "--dir", dir, "restore", file+"2", "--from-volume", "earlier"), "the file was made of volume earlier", "there is nothing to restore")
	check(t, os.Mkdir(filepath.Join(dir, "meta", "earlier"), 0o755))
	has(t, mustRun(t, "--dir", dir, "restore", file+"2"), "by now", "there is nothing to restore")
}

// A table stays short, whatever a group has.
func TestRestoreOfManyOffsets(t *testing.T) {
	dir := newGroupsVolume(t)
	var ps []groups.PartitionOffset
	for i := range int32(80) {
		ps = append(ps, groups.PartitionOffset{Partition: i, Offset: 5, LeaderEpoch: -1, Expires: -1})
	}
	publisher(t, dir, "groups/"+shardName("billing"), 2, groups.Schema(), func(publish func(string, []metalog.Event, error)) {
		evs, err := groups.NewEvents(&groups.OffsetsCommitted{Group: "billing", Time: 1, Topics: []groups.TopicOffsets{{Topic: ordersID, Partitions: ps}}})
		publish("many", evs, err)
	})
	out := mustRun(t, "--dir", dir, "restore", "--at", "1-2", "--group", "billing", "--prune", "--dry-run")
	has(t, out, "and 30 more; -o json has them all", "billing orders-0 5 42", "billing orders-3 5 -")
}

// tree lists all names below a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	check(t, filepath.Walk(dir, func(p string, _ os.FileInfo, err error) error {
		b.WriteString(p + "\n")
		return err
	}))
	return b.String()
}
