package nfssim

import (
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

func TestServerAnswers(t *testing.T) {
	for _, local := range []bool{false, true} {
		for seed := range int64(10) {
			story(t, Config{Seed: seed, Local: local}, serverAnswers)
		}
	}
}

func serverAnswers(t *story1) {
	a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
	t.ok(a.Mkdir("full"))
	t.write(a, "full/x", "")
	t.ok(a.Mkdir("empty"))
	t.ok(a.Mkdir("dir"))
	t.write(a, "dir/mine", "")
	t.write(a, "file", "")
	t.want(b.Rename("file", "full"), syscall.EISDIR, syscall.EEXIST)
	t.want(b.Rename("file", "empty"), syscall.EISDIR, syscall.EEXIST)
	t.want(b.Rename("dir", "full"), syscall.ENOTEMPTY, syscall.EEXIST)
	t.want(b.Rename("dir", "file"), syscall.ENOTDIR)
	t.want(b.Rename("dir", "dir/in"), syscall.EINVAL)
	t.want(b.Rename("absent", "file"), fs.ErrNotExist)
	t.want(b.Mkdir("file"), fs.ErrExist)
	t.want(b.Mkdir("full"), fs.ErrExist)
	t.want(b.Mkdir("absent/d"), fs.ErrNotExist)
	t.want(b.Mkdir("file/d"), syscall.ENOTDIR)
	t.want(b.Mkdir(strings.Repeat("x", 256)), syscall.ENAMETOOLONG)
	t.ok(b.Mkdir(strings.Repeat("x", 255)))
	t.want(b.Remove("full"), syscall.ENOTEMPTY)
	t.want(b.Remove("absent"), fs.ErrNotExist)
	_, err := b.Open("full")
	t.want(err, syscall.EISDIR)
	_, err = b.List("file")
	t.want(err, syscall.ENOTDIR)
	_, err = b.List("nowhere")
	t.want(err, fs.ErrNotExist)
	t.ok(b.Rename("dir", "empty"))
	t.reads(a, "empty/mine", "")
	t.ok(a.Remove("empty/mine"))
	t.ok(a.Remove("empty"))
	t.ok(a.SyncDir("."))
	f, err := a.Open("file")
	t.ok(err)
	_, err = f.WriteAt([]byte("x"), 0)
	t.want(err, syscall.EBADF)
	t.ok(f.Close())
	t.want(f.Close(), fs.ErrClosed)
}

func TestDirectoryRenameRaceHasOneWinner(t *testing.T) {
	seeds(t, Config{}, func(t *story1) string {
		winners := make(chan string, 3)
		for i := range 3 {
			name := fmt.Sprint("h", i)
			p := t.s.Host(name).FS()
			go func() {
				t.ok(p.Mkdir("new" + name))
				t.write(p, "new"+name+"/claim", name)
				if err := p.Rename("new"+name, "epoch"); err != nil {
					t.want(err, syscall.ENOTEMPTY, syscall.EEXIST)
					t.reads(p, "new"+name+"/claim", name)
					winners <- ""
					return
				}
				winners <- name
			}()
		}
		won := <-winners + <-winners + <-winners
		for i := range 3 {
			t.reads(t.s.Host(fmt.Sprint("h", i)).FS(), "epoch/claim", won)
		}
		return won
	}, "h0", "h1", "h2")
}

func TestExclusiveCreateAndMkdirHaveOneWinner(t *testing.T) {
	seeds(t, Config{}, func(t *story1) string {
		won := make(chan string, 2)
		for _, name := range []string{"a", "b"} {
			p := t.s.Host(name).FS()
			go func() {
				res := ""
				if f, err := p.CreateExclusive("f"); err == nil {
					res = name
					t.ok(f.Close())
				}
				if p.Mkdir("d") == nil {
					res += name
				}
				won <- res
			}()
		}
		if l := len(<-won + <-won); l != 2 {
			t.Errorf("%d winners of two", l)
		}
		return ""
	}, "")
}
