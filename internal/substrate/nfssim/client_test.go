package nfssim

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReopenAndListAreFresh(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		t.write(a, "f", "0")
		for i := range 50 {
			t.replace(a, "f", fmt.Sprint(i))
			t.reads(b, "f", fmt.Sprint(i))
			t.write(a, fmt.Sprint("n", i), "")
			if l := t.list(b, "."); !slices.Contains(l, fmt.Sprint("n", i)) {
				t.Errorf("list lacks n%d: %v", i, l)
			}
		}
	})
}

func TestStatIsStale(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, b := t.s.Host("a").FS(), t.s.Host("b").Process()
		t.write(a, "f", "1")
		old, err := b.Stat("f")
		t.ok(err)
		t.replace(a, "f", "22")
		if got, _ := b.Stat("f"); got != old {
			t.Errorf("stat saw the news: %v", got)
		}
		time.Sleep(31 * second)
		if got, _ := b.Stat("f"); got == old || got.Size != 2 {
			t.Errorf("stat after the caches expired: %v", got)
		}
		t.ok(a.Mkdir("d"))
		time.Sleep(31 * second)
		_, err = b.Stat("e")
		t.want(err, fs.ErrNotExist)
		t.ok(a.Mkdir("e"))
		time.Sleep(20 * second)
		_, err = b.Stat("e")
		t.want(err, fs.ErrNotExist) // waiting for a directory with stat
	})
}

func TestNegativeProbe(t *testing.T) {
	cures := map[string]func(t *story1, b *Process){
		"time":       func(*story1, *Process) { time.Sleep(31 * second) },
		"list":       func(t *story1, b *Process) { t.list(b, ".") },
		"own change": func(t *story1, b *Process) { t.ok(b.Mkdir("own")) },
	}
	for name, cure := range cures {
		t.Run(name, func(t *testing.T) {
			story(t, Config{}, func(t *story1) {
				a, b := t.s.Host("a").FS(), t.s.Host("b").Process()
				_, err := b.Open("f")
				t.want(err, fs.ErrNotExist)
				t.write(a, "f", "x")
				_, err = b.Open("f")
				t.want(err, fs.ErrNotExist)
				t.reads(t.s.Host("c").FS(), "f", "x")
				cure(t, b)
				t.reads(b, "f", "x")
			})
		})
	}
	story(t, Config{}, func(t *story1) { // O_EXCL is the server's
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		_, err := b.Open("f")
		t.want(err, fs.ErrNotExist)
		t.write(a, "f", "x")
		_, err = b.CreateExclusive("f")
		t.want(err, fs.ErrExist)
	})
}

func TestRenamedAwayIsAbsentAtOnce(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		t.write(a, "f", "x")
		t.reads(b, "f", "x")
		t.ok(a.Rename("f", "g"))
		_, err := b.Open("f")
		t.want(err, fs.ErrNotExist)
	})
}

func TestHardLinkKeepsOldFileOpenable(t *testing.T) {
	for _, cure := range []string{"list", "time"} {
		story(t, Config{}, func(t *story1) {
			a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
			t.write(a, "f", "old")
			t.ok(t.s.HardLink("f", "backup"))
			t.reads(b, "f", "old")
			t.replace(a, "f", "new")
			time.Sleep(20 * second)
			t.reads(b, "f", "old")
			if cure == "list" {
				t.list(b, ".")
			} else {
				time.Sleep(11 * second)
			}
			t.reads(b, "f", "new")
		})
	}
}

func TestFreezeWithDelegation(t *testing.T) {
	seeds(t, Config{Delegations: true}, func(t *story1) string {
		a, b := t.s.Host("a"), t.s.Host("b").FS()
		fa := a.FS()
		t.ok(b.Mkdir("d"))
		t.write(b, "d/f", "old")
		t.reads(fa, "d/f", "old")
		a.Freeze()
		t.replace(b, "d/f", "new")
		t.reads(b, "d/f", "new")
		time.Sleep(15 * second)
		a.Thaw()
		got, err := read(fa, "d/f")
		t.ok(err)
		t.list(fa, "d")
		t.reads(fa, "d/f", "new")
		// A rename is refused whatever the client believes.
		a.Freeze()
		t.ok(b.Remove("d/f"))
		t.ok(b.Mkdir("d/f"))
		a.Thaw()
		t.write(fa, "d/g", "")
		t.want(fa.Rename("d/g", "d/f"), syscall.EISDIR, syscall.EEXIST)
		return got
	}, "old", "new")
}

func TestDelegationIsRecalledFromLiveHost(t *testing.T) {
	seeds(t, Config{Delegations: true}, func(t *story1) string {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		t.write(b, "f", "old")
		t.reads(a, "f", "old")
		t.replace(b, "f", "new")
		got, err := read(a, "f")
		t.ok(err)
		return got
	}, "new")
}

// A file that its replacer held open is gone with the last close, and with it the
// delegation that another host was given on it meanwhile.
func TestDelegationEndsWithTheSillyName(t *testing.T) {
	for seed := range int64(20) {
		story(t, Config{Seed: seed, Delegations: true}, func(t *story1) {
			a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
			t.write(a, "f", "old")
			held, err := a.Open("f")
			t.ok(err)
			t.reads(b, "f", "old")
			t.replace(a, "f", "new")
			_, _ = read(b, "f") // the old file, perhaps, by its handle
			t.ok(held.Close())
			time.Sleep(time.Hour)
			t.reads(b, "f", "new")
		})
	}
}

func TestStaleHandleAndOpen(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, b, c := t.s.Host("a").FS(), t.s.Host("b").FS(), t.s.Host("c").FS()
		t.write(a, "f", "old")
		t.reads(b, "f", "old")
		held, err := c.Open("f")
		t.ok(err)
		t.replace(a, "f", "new")
		for range 3 {
			_, err = b.Open("f")
			t.want(err, syscall.ESTALE)
			time.Sleep(second)
		}
		time.Sleep(second)
		_, err = content(held)
		t.want(err, syscall.ESTALE)
		t.list(b, ".")
		t.reads(b, "f", "new")
		t.ok(held.Close())
	})
}

func TestSillyRename(t *testing.T) {
	seeds(t, Config{}, func(t *story1) string {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		t.ok(a.Mkdir("d"))
		t.write(a, "d/f", "x")
		held, err := a.Open("d/f")
		t.ok(err)
		t.ok(a.Remove("d/f"))
		l := t.list(b, "d")
		if len(l) != 1 || !strings.HasPrefix(l[0], ".nfs") {
			t.Errorf("listing %v", l)
		}
		if got, err := content(held); err != nil || got != "x" {
			t.Errorf("held file reads %q, %v", got, err)
		}
		res := a.Remove("d")
		t.ok(held.Close())
		t.ok(a.Remove("d"))
		return outcome(res)
	}, outcome(syscall.ENOTEMPTY), outcome(syscall.EBUSY))
}

func TestReplacingOwnOpenFileHasGap(t *testing.T) {
	run := func(t *testing.T, atomic bool, outcomes ...string) {
		seeds(t, Config{AtomicReplace: atomic}, func(t *story1) string {
			a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
			t.write(a, "f", "old")
			held, err := a.Open("f")
			t.ok(err)
			t.write(a, "g", "new")
			done := make(chan error)
			go func() { done <- a.Rename("g", "f") }()
			res := "whole"
			for range 5 {
				if _, err := b.CreateExclusive("f"); err == nil {
					res = "gap"
				}
			}
			t.ok(<-done)
			t.reads(a, "f", "new")
			t.ok(held.Close())
			return res
		}, outcomes...)
	}
	run(t, false, "gap", "whole")
	run(t, true, "whole")
}

func TestStaleListNeverOlderThanOwnChange(t *testing.T) {
	stale := 0
	for seed := range int64(20) {
		story(t, Config{Seed: seed, StaleList: 0.5}, func(t *story1) {
			a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
			for i := range 20 {
				t.write(a, fmt.Sprint("a", i), "")
				if !slices.Contains(t.list(b, "."), fmt.Sprint("a", i)) {
					stale++
				}
				if i%5 == 4 {
					t.write(b, fmt.Sprint("b", i), "")
					l := t.list(b, ".")
					if !slices.Contains(l, fmt.Sprint("b", i)) || !slices.Contains(l, fmt.Sprint("a", i)) {
						t.Errorf("listing is older than the host's own create: %v", l)
					}
				}
			}
		})
	}
	if stale == 0 {
		t.Error("no listing was stale")
	}
}

func TestCachedDirectoryMayHaveMoved(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		t.ok(a.Mkdir("d"))
		t.write(a, "d/f", "x")
		t.reads(b, "d/f", "x")
		t.ok(a.Rename("d", "~deleted~d"))
		t.write(b, "d/late", "")
		if l := t.list(a, "~deleted~d"); len(l) != 2 {
			t.Errorf("moved directory has %v", l)
		}
		t.list(b, ".")
		_, err := b.CreateExclusive("d/later")
		t.want(err, fs.ErrNotExist)
	})
}

func TestRenameOntoDirectoryIsRefusedWhateverIsCached(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		t.write(a, "0", "token")
		t.ok(t.s.HardLink("0", "backup"))
		held, err := a.Open("0")
		t.ok(err)
		t.ok(a.Rename("0", "1"))
		_, err = a.Open("0")
		t.want(err, fs.ErrNotExist)
		t.ok(b.Mkdir("0"))
		t.want(a.Rename("1", "0"), syscall.EISDIR, syscall.EEXIST)
		t.reads(a, "1", "token")
		t.ok(held.Close())
	})
}

func TestCachedNameAnswersMkdirAndRename(t *testing.T) {
	seeds(t, Config{}, func(t *story1) string {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		t.write(a, "0", "token")
		t.reads(b, "0", "token")
		_, err := b.Open("1")
		t.want(err, fs.ErrNotExist)
		t.ok(a.Rename("0", "1"))
		t.want(b.Rename("1", "2"), fs.ErrNotExist) // it is there
		res := outcome(b.Mkdir("0"))               // it is free
		t.list(b, ".")
		t.ok(b.Rename("1", "2"))
		return res
	}, "ok", outcome(syscall.EEXIST))
}
