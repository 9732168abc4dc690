package server

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Nothing that a broker makes on the volume is for others, whatever its directory is.
func TestVolumeIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.produce("t", newBatch(nil, "a"))
	seen := 0
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) || err == nil && path == dir { // streams are pruned meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if seen++; fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o", path, fi.Mode().Perm())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if seen < 10 {
		t.Errorf("%d files and directories are there", seen)
	}
}

// A directory that others may reach is told of, in one line; it is not refused.
func TestVolumeOpenToOthers(t *testing.T) {
	for mode, told := range map[os.FileMode]int{0o700: 0, 0o750: 0, 0o770: 0, 0o755: 1, 0o777: 1, 0o701: 1, 0: 0} {
		dir := t.TempDir()
		if mode == 0 { // it is made
			dir = filepath.Join(dir, "made")
		} else if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var out lockedBuffer
		n, err := Open(t.Context(), testConfig(t, dir), slog.New(slog.NewTextHandler(&out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if got := strings.Count(out.String(), "not for the broker's user alone"); got != told {
			t.Errorf("mode %o: told %d times", mode, got)
		}
	}
}
