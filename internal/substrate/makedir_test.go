package substrate

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A new volume is its owner's alone, for there are secrets on it. What is there stays as it is.
func TestMakeDirIsPrivate(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	mode := func(name string) os.FileMode {
		fi, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return fi.Mode().Perm()
	}
	usual := mode("there")
	for _, name := range []string{"a/b", "a/b", "a", "there"} {
		if _, err := MakeDir(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]os.FileMode{"there": usual, "a": usual, "a/b": 0o700} {
		if got := mode(name); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

// What is made on a volume is its owner's alone, and what is elsewhere as usual.
func TestPrivate(t *testing.T) {
	for _, private := range []bool{false, true} {
		d, err := OpenDir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if private {
			d.Private()
		}
		f, err := d.CreateExclusive("f")
		if err = errors.Join(err, d.Mkdir("d")); err != nil {
			t.Fatal(err)
		}
		f.Close()
		for _, name := range []string{"f", "d"} {
			fi, err := os.Stat(filepath.Join(d.Root(), name))
			if err != nil {
				t.Fatal(err)
			}
			if others := fi.Mode().Perm() & 0o077; private != (others == 0) {
				t.Errorf("private %v: %s has mode %o", private, name, fi.Mode().Perm())
			}
		}
	}
}

// Unmake removes what this process made, and that only, and nothing that is in use.
func TestUnmake(t *testing.T) {
	root := t.TempDir()
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return err == nil
	}
	mk := func(name string) *DirFS {
		d, err := MakeDir(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if err := os.Mkdir(filepath.Join(root, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	inner := mk("a/b/c")
	again := mk("a/b/c")
	if again.Unmake(); !there("a/b/c") {
		t.Error("removed what another has made")
	}
	if inner.Unmake(); there("a/b") || !there("a") {
		t.Error("b stays, or a is gone")
	}
	used := mk("d/e")
	if err := os.WriteFile(filepath.Join(root, "d", "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if used.Unmake(); there("d/e") || !there("d/f") {
		t.Error("e stays, or f is gone")
	}
	if _, err := MakeDir(filepath.Join(root, "d", "f")); err == nil {
		t.Error("a file was opened as a directory")
	}
	if _, err := MakeDir(filepath.Join(root, "d", "f", "g")); err == nil {
		t.Error("a directory was made in a file")
	}
}

func TestRemoveTreeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "b", "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	v := &Volume{FS: d}
	for range 2 { // what is gone is no error
		if err := v.RemoveTree("a"); err != nil {
			t.Fatal(err)
		}
	}
	if es, err := d.List("."); err != nil || len(es) != 0 {
		t.Error(es, err)
	}
}
