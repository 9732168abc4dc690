package nfssim

import (
	"io/fs"
	"math/rand/v2"
	"testing"
	"time"
)

// The writer reads what it wrote, whatever was sent; others read all of it after
// a Datasync and a reopen.
func TestPagesAgainstModel(t *testing.T) {
	for seed := range int64(30) {
		story(t, Config{Seed: seed, Local: seed%3 == 0}, func(t *story1) {
			rng := rand.New(rand.NewPCG(uint64(seed), 1))
			a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
			f, err := a.CreateExclusive("f")
			t.ok(err)
			model := []byte{}
			for i := range 300 {
				off, text := rng.IntN(60), make([]byte, 1+rng.IntN(20))
				for k := range text {
					text[k] = byte('a' + i%26)
				}
				_, err := f.WriteAt(text, int64(off))
				t.ok(err)
				model = put(model, int64(off), text)
				if got, err := content(f); err != nil || got != string(model) {
					t.Errorf("writer reads %q, %v; want %q", got, err, model)
					return
				}
				if n, err := f.Size(); err != nil || n != int64(len(model)) {
					t.Errorf("size %d, %v; want %d", n, err, len(model))
					return
				}
				if rng.IntN(4) == 0 {
					t.ok(f.Datasync())
					t.reads(b, "f", string(model))
				}
			}
			t.ok(f.Datasync())
			t.ok(a.SyncDir("."))
			t.s.ServerPowerLoss() // kills a if it is local
			t.reads(t.s.Server(), "f", string(model))
		})
	}
}

// A reader keeps its pages until its attributes expire or it opens again.
func TestReaderKeepsPages(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		f, err := a.CreateExclusive("f")
		t.ok(err)
		_, err = f.WriteAt([]byte("old"), 0)
		t.ok(err)
		t.ok(f.Datasync())
		g, err := b.Open("f")
		t.ok(err)
		_, err = f.WriteAt([]byte("NEWER"), 0)
		t.ok(err)
		t.ok(f.Datasync())
		if got, _ := content(g); got != "old" {
			t.Errorf("read %q before the attributes expired", got)
		}
		if n, _ := g.Size(); n != 3 {
			t.Errorf("size %d", n)
		}
		time.Sleep(4 * second)
		if got, _ := content(g); got != "NEWER" {
			t.Errorf("read %q after they expired", got)
		}
	})
}

func TestThawedHostLearnsInTime(t *testing.T) {
	seeds(t, Config{Delegations: true}, func(t *story1) string {
		a, b := t.s.Host("a"), t.s.Host("b").FS()
		fa := a.FS()
		t.write(b, "f", "old")
		t.reads(fa, "f", "old")
		a.Freeze()
		t.replace(b, "f", "new")
		a.Thaw()
		time.Sleep(6 * second)
		got, err := read(fa, "f")
		t.ok(err)
		return got
	}, "new")
}

func TestServerView(t *testing.T) {
	story(t, Config{Local: true}, func(t *story1) {
		srv, h := t.s.Server(), t.s.Host("a")
		t.ok(srv.Mkdir("d"))
		t.write(srv, "d/f", "x")
		t.ok(srv.Rename("d/f", "d/g"))
		t.want(srv.Rename("d/f", "d/h"), fs.ErrNotExist)
		t.ok(srv.SyncDir("d"))
		h.PowerLoss()
		t.reads(h.FS(), "d/g", "x")
		t.ok(srv.Remove("d/g"))
		t.ok(srv.Remove("d"))
		if l := t.list(srv, "."); len(l) != 0 {
			t.Errorf("left: %v", l)
		}
	})
}
