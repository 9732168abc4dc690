package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// bent is a volume that breaks what its functions break.
type bent struct {
	*substrate.DirFS
	create func(name string) (substrate.File, error)
	mkdir  func(name string) error
	rename func(from, to string) error
	open   func(name string) (substrate.File, error)
	wrap   func(f substrate.File, err error) (substrate.File, error)
	sync   error
}

func (b *bent) CreateExclusive(name string) (substrate.File, error) {
	f, err := b.DirFS.CreateExclusive(name)
	if b.create != nil && err != nil || b.create != nil && len(name) > 200 {
		return b.create(name)
	}
	if b.wrap != nil {
		return b.wrap(f, err)
	}
	return f, err
}

func (b *bent) Mkdir(name string) error {
	err := b.DirFS.Mkdir(name)
	if err != nil && b.mkdir != nil {
		return b.mkdir(name)
	}
	return err
}

func (b *bent) Rename(from, to string) error {
	if b.rename != nil {
		return b.rename(from, to)
	}
	return b.DirFS.Rename(from, to)
}

func (b *bent) Glance(name string) (substrate.File, error) { return b.Open(name) }

func (b *bent) Open(name string) (substrate.File, error) {
	if b.open != nil {
		return b.open(name)
	}
	return b.DirFS.Open(name)
}

func (b *bent) SyncDir(name string) error { return errors.Join(b.sync, b.DirFS.SyncDir(name)) }

// unsynced is a file whose sync fails.
type unsynced struct{ substrate.File }

func (unsynced) Datasync() error { return syscall.EIO }

// short is a file that shows the size it had at the first open of its name.
type short struct {
	substrate.File
	size int64
}

func (s short) Size() (int64, error) { return s.size, nil }

func noMount() (substrate.Mount, error) { return substrate.Mount{}, errors.New("no table") }

func TestProbePasses(t *testing.T) {
	dir := newVolume(t)
	before := names(t, dir)
	out, err := run("--dir", dir, "probe")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if after := names(t, dir); after != before {
		t.Errorf("the volume was changed from\n%s\nto\n%s", before, after)
	}
	for _, q := range questions {
		if !strings.Contains(out, "  "+q.name+": ") {
			t.Errorf("%s is not told:\n%s", q.name, out)
		}
	}
	for _, want := range []string{"mount   ", "  free space: ", "time    rename", "every check passed"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

func TestProbeInJSON(t *testing.T) {
	dir := t.TempDir() // it need not be a volume yet
	out, err := run("--dir", dir, "probe", "-o", "json")
	check(t, err)
	var r probeReport
	check(t, json.Unmarshal([]byte(out), &r))
	if r.Mount == nil || r.Mount.Type == "" || r.Failed != 0 || len(r.Checks) < len(questions) || len(r.Times) != 2 || r.Times[0].Median <= 0 {
		t.Errorf("%+v", r)
	}
	if left := names(t, dir); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func TestProbeOfWhatIsNotThere(t *testing.T) {
	for _, args := range [][]string{{"probe"}, {"--dir", filepath.Join(t.TempDir(), "nothing"), "probe"}} {
		if out, err := run(args...); err == nil {
			t.Errorf("%v: %s", args, out)
		}
	}
}

// TestProbeFails breaks one property at a time; the check of it, at least, must fail.
func TestProbeFails(t *testing.T) {
	for name, c := range map[string]struct {
		bend  func(b *bent)
		fails []string
	}{
		"create is not exclusive": {func(b *bent) {
			b.create = func(name string) (substrate.File, error) { return b.DirFS.Open(name) }
		}, []string{"exclusive create"}},
		"names are short": {func(b *bent) {
			b.create = func(name string) (substrate.File, error) {
				return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENAMETOOLONG}
			}
		}, []string{"names of 255 bytes"}},
		"mkdir is what it finds": {func(b *bent) {
			b.mkdir = func(string) error { return nil }
		}, []string{"mkdir", "mkdir over a name"}},
		"rename removes what is there": {func(b *bent) {
			b.rename = func(from, to string) error {
				return errors.Join(os.RemoveAll(filepath.Join(b.Root(), to)), b.DirFS.Rename(from, to))
			}
		}, []string{"directory onto a directory with files", "racing directories", "file onto a directory", "directory onto a file"}},
		"rename leaves a gap": {func(b *bent) {
			var misses atomic.Int64
			b.open = func(name string) (substrate.File, error) {
				f, err := b.DirFS.Open(name)
				if err != nil {
					misses.Add(1)
				}
				return f, err
			}
			b.rename = func(from, to string) error {
				if strings.HasSuffix(to, "/state") && misses.Load() == 0 && b.Remove(to) == nil {
					for end := time.Now().Add(10 * time.Second); misses.Load() == 0 && time.Now().Before(end); {
						runtime.Gosched() // until the reader has come by
					}
				}
				return b.DirFS.Rename(from, to)
			}
		}, []string{"replacing a file"}},
		"rename copies": {func(b *bent) {
			b.rename = func(from, to string) error {
				if !strings.HasSuffix(to, "/state") {
					return b.DirFS.Rename(from, to)
				}
				data, err := os.ReadFile(filepath.Join(b.Root(), from))
				check(t, err)
				data[len(data)/2]++ // as if the other half were the old one's
				return os.WriteFile(filepath.Join(b.Root(), to), data, 0o644)
			}
		}, []string{"replacing a file"}},
		"a refusal looks like a passing error": {func(b *bent) {
			b.rename = func(from, to string) error {
				err := b.DirFS.Rename(from, to)
				if isRefusal(err) {
					return &fs.PathError{Op: "rename", Path: to, Err: syscall.EIO}
				}
				return err
			}
		}, []string{"directory onto a directory with files", "racing directories", "file onto a directory", "directory onto a file"}},
		"sync fails": {func(b *bent) {
			b.wrap = func(f substrate.File, err error) (substrate.File, error) {
				if err != nil {
					return nil, err
				}
				return unsynced{f}, nil
			}
		}, []string{"sync of files and directories"}},
		"directories cannot be synced": {func(b *bent) { b.sync = syscall.EINVAL }, []string{"sync of files and directories"}},
		"an open shows old bytes": {func(b *bent) {
			seen := map[string]int64{}
			b.open = func(name string) (substrate.File, error) {
				f, err := b.DirFS.Open(name)
				if err != nil {
					return nil, err
				}
				n, err := f.Size()
				if _, there := seen[name]; !there {
					seen[name] = n
				}
				return short{f, seen[name]}, err
			}
		}, []string{"reopening"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := substrate.OpenDir(t.TempDir())
			check(t, err)
			b := &bent{DirFS: d}
			c.bend(b)
			var out bytes.Buffer
			a := &app{dir: d.Root(), output: "table", out: &out}
			if err := a.probe(b, noMount); !errors.Is(err, errUnfit) {
				t.Fatalf("%v\n%s", err, out.String())
			}
			for _, want := range c.fails {
				if !strings.Contains(out.String(), "FAILED  "+want+": ") {
					t.Errorf("%s passes:\n%s", want, out.String())
				}
			}
			if left := names(t, d.Root()); left != "" {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

func TestProbeOfMounts(t *testing.T) {
	for _, c := range []struct {
		m    substrate.Mount
		fit  bool
		says string
	}{
		{substrate.Mount{Point: "/mnt/d", Type: "nfs4", Source: "s:/x", Options: []string{"rw", "vers=4.1", "hard", "addr=10.0.0.1"}}, true, "mount   s:/x on /mnt/d, nfs4: vers=4.1,hard,addr=10.0.0.1\nok      mount: "},
		{substrate.Mount{Point: "/mnt/d", Type: "nfs4", Options: []string{"rw", "vers=4.1", "hard", "nocto"}}, false, "FAILED  mount: /mnt/d is mounted with nocto"},
		{substrate.Mount{Point: "/mnt/d", Type: "nfs4", Options: []string{"rw", "vers=4.1", "soft"}}, true, "note    mount: /mnt/d is mounted with soft"},
		{substrate.Mount{Point: "/mnt/d", Type: "ext4"}, true, "note    mount: ext4 is a file system of this host"},
		{substrate.Mount{Point: "/mnt/d", Type: "fuse.x"}, true, "note    mount: fuse.x is none that kaas is tested on"},
	} {
		d, err := substrate.OpenDir(t.TempDir())
		check(t, err)
		var out bytes.Buffer
		a := &app{dir: d.Root(), output: "table", out: &out}
		if err := a.probe(d, func() (substrate.Mount, error) { return c.m, nil }); (err == nil) != c.fit {
			t.Errorf("%v: %v", c.m, err)
		}
		if !strings.Contains(out.String(), c.says) {
			t.Errorf("%q is missing:\n%s", c.says, out.String())
		}
	}
}

// names is every path below dir, a line each.
func names(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	check(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if p != dir {
			out.WriteString(strings.TrimPrefix(p, dir) + "\n")
		}
		return err
	}))
	return out.String()
}
