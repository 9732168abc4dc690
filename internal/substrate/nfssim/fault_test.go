package nfssim

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

func TestLostReplies(t *testing.T) {
	seeds(t, Config{LostReply: 1}, func(t *story1) string {
		a, srv := t.s.Host("a").FS(), t.s.Server()
		res := outcome(a.Mkdir("d"))
		_, err := srv.List("d")
		t.ok(err)
		t.want(a.Mkdir("d"), fs.ErrExist)
		return res
	}, outcome(syscall.EEXIST), outcome(syscall.EIO))
	seeds(t, Config{LostReply: 1}, func(t *story1) string {
		a, srv := t.s.Host("a").FS(), t.s.Server()
		_, err := a.CreateExclusive("f")
		t.reads(srv, "f", "")
		return outcome(err)
	}, outcome(syscall.EEXIST), outcome(syscall.EIO))
	seeds(t, Config{LostReply: 1}, func(t *story1) string {
		a, srv := t.s.Host("a").FS(), t.s.Server()
		t.write(srv, "f", "x")
		res := outcome(a.Rename("f", "g"))
		t.reads(srv, "g", "x")
		if outcome(a.Remove("g")) == "ok" {
			t.Error("the reply was not lost")
		}
		_, err := srv.Open("g")
		t.want(err, fs.ErrNotExist)
		return res
	}, outcome(syscall.ENOENT), outcome(syscall.EIO))
}

// half makes a file of which "sync" is durable and "more" is not.
func half(t *story1, fs substrate.FS, name string) substrate.File {
	f, err := fs.CreateExclusive(name)
	t.ok(err)
	_, err = f.WriteAt([]byte("sync"), 0)
	t.ok(err)
	t.ok(f.Datasync())
	_, err = f.WriteAt([]byte("more"), 4)
	t.ok(err)
	return f
}

// part tells how much of half's file is there.
func part(t *story1, fs substrate.FS, name string) string {
	t.Helper()
	got, err := read(fs, name)
	switch {
	case err != nil:
		return outcome(err)
	case got == "sync" || got == "syncmore":
		return got
	case len(got) < 8 && got == "syncmore"[:len(got)]:
		return "torn"
	}
	return "damaged: " + got
}

func TestUnsyncedDataAtPowerLoss(t *testing.T) {
	for _, local := range []bool{false, true} {
		seeds(t, Config{Local: local}, func(t *story1) string {
			a := t.s.Host("a")
			p := a.FS()
			f := half(t, p, "f")
			t.ok(p.SyncDir("."))
			a.PowerLoss()
			t.want(f.Datasync(), ErrKilled)
			_, err := p.Open("f")
			t.want(err, ErrKilled)
			return part(t, a.FS(), "f")
		}, "sync", "syncmore", "torn")
	}
}

func TestWritesAreTheHostsOwnUntilSent(t *testing.T) {
	seeds(t, Config{}, func(t *story1) string {
		a, b := t.s.Host("a").FS(), t.s.Host("b").FS()
		f := half(t, a, "f")
		if got, _ := content(f); got != "syncmore" {
			t.Errorf("writer reads %q", got)
		}
		t.reads(a, "f", "syncmore")
		before := part(t, b, "f")
		t.ok(f.Close())
		t.reads(b, "f", "syncmore")
		return before
	}, "sync", "syncmore")
}

func TestKillLosesNoPageCache(t *testing.T) {
	seeds(t, Config{}, func(t *story1) string {
		a := t.s.Host("a")
		p := a.Process()
		half(t, p, "f")
		p.Kill()
		t.reads(a.FS(), "f", "syncmore")
		return part(t, t.s.Host("b").FS(), "f")
	}, "sync", "syncmore")
}

func TestServerPowerLoss(t *testing.T) {
	seeds(t, Config{}, func(t *story1) string { // closed: sent, not committed
		a := t.s.Host("a").FS()
		t.ok(half(t, a, "f").Close())
		t.s.ServerPowerLoss()
		return part(t, t.s.Host("b").FS(), "f")
	}, "sync", "syncmore", "torn")
	seeds(t, Config{}, func(t *story1) string { // open: sent again
		a := t.s.Host("a").FS()
		f := half(t, a, "f")
		t.s.ServerPowerLoss()
		t.ok(f.Datasync())
		t.s.ServerPowerLoss()
		return part(t, t.s.Host("b").FS(), "f")
	}, "syncmore")
	seeds(t, Config{RestartStale: true}, func(t *story1) string {
		a := t.s.Host("a").FS()
		f := half(t, a, "f")
		t.s.ServerPowerLoss()
		t.want(f.Datasync(), syscall.ESTALE)
		_, err := content(f)
		t.want(err, syscall.ESTALE)
		t.want(f.Close(), syscall.ESTALE)
		return part(t, t.s.Host("b").FS(), "f")
	}, "sync", "syncmore", "torn")
	seeds(t, Config{}, func(t *story1) string { // another host's fsync commits nothing
		a := t.s.Host("a").FS()
		t.ok(half(t, a, "f").Close())
		b := t.s.Host("b").FS()
		g, err := b.Open("f")
		t.ok(err)
		t.ok(g.Datasync())
		t.s.ServerPowerLoss()
		return part(t, b, "f")
	}, "sync", "syncmore", "torn")
}

func TestLocalUnsyncedNames(t *testing.T) {
	local := Config{Local: true}
	seeds(t, local, func(t *story1) string {
		h := t.s.Host("a")
		p := h.FS()
		t.write(p, "f", "old")
		t.write(p, "t", "new")
		t.ok(p.SyncDir("."))
		t.ok(p.Rename("t", "f"))
		h.PowerLoss()
		got, err := read(h.FS(), "f")
		t.ok(err)
		return got
	}, "old", "new")
	seeds(t, local, func(t *story1) string {
		h := t.s.Host("a")
		p := h.FS()
		t.write(p, "f", "x")
		t.ok(p.SyncDir("."))
		t.ok(p.Remove("f"))
		h.PowerLoss()
		_, err := read(h.FS(), "f")
		return outcome(err)
	}, "ok", outcome(syscall.ENOENT))
	seeds(t, local, func(t *story1) string {
		h := t.s.Host("a")
		p := h.FS()
		t.write(p, "f", "x") // the data is synced, the name is not
		h.PowerLoss()
		_, err := read(h.FS(), "f")
		return outcome(err)
	}, "ok", outcome(syscall.ENOENT))
	seeds(t, local, func(t *story1) string { // a directory renamed whole, its entries unsynced
		h := t.s.Host("a")
		p := h.FS()
		t.ok(p.Mkdir("new"))
		t.write(p, "new/claim", "x")
		t.ok(p.Rename("new", "epoch"))
		t.ok(p.SyncDir("."))
		h.PowerLoss()
		_, err := read(h.FS(), "epoch/claim")
		return outcome(err)
	}, "ok", outcome(syscall.ENOENT))
	seeds(t, local, func(t *story1) string { // in the right order nothing is lost
		h := t.s.Host("a")
		p := h.FS()
		t.ok(p.Mkdir("new"))
		t.write(p, "new/claim", "x")
		t.ok(p.SyncDir("new"))
		t.ok(p.Rename("new", "epoch"))
		t.ok(p.SyncDir("."))
		t.ok(p.Remove("epoch/claim"))
		t.ok(p.SyncDir("epoch"))
		t.write(p, "epoch/claim", "y")
		t.ok(p.SyncDir("epoch"))
		h.PowerLoss()
		t.reads(h.FS(), "epoch/claim", "y")
		return ""
	}, "")
}

func TestNoSpaceAtSyncOrClose(t *testing.T) {
	for _, local := range []bool{false, true} {
		for _, kind := range []Kind{OpDatasync, OpClose, OpWrite} {
			var full bool
			cfg := Config{Local: local, Fault: func(op Op) error {
				if full && op.Kind == kind {
					full = false
					return syscall.ENOSPC
				}
				return nil
			}}
			outcomes := []string{"sync", "syncmore", "torn"}
			if kind == OpWrite {
				outcomes = []string{"syncmore"}
			}
			seeds(t, cfg, func(t *story1) string {
				h := t.s.Host("a")
				p := h.FS()
				f := half(t, p, "f")
				t.ok(p.SyncDir("."))
				full = true
				switch kind {
				case OpDatasync:
					t.want(f.Datasync(), syscall.ENOSPC)
				case OpClose:
					t.want(f.Close(), syscall.ENOSPC)
				case OpWrite:
					n, err := f.WriteAt([]byte("much"), 8)
					t.want(err, syscall.ENOSPC)
					if n >= 4 {
						t.Errorf("wrote %d bytes", n)
					}
				}
				if kind == OpWrite {
					t.ok(f.Datasync())
					got, err := read(p, "f")
					t.ok(err)
					return got[:8]
				}
				_ = f.Datasync() // proves nothing
				h.PowerLoss()
				t.s.ServerPowerLoss()
				return part(t, h.FS(), "f")
			}, outcomes...)
		}
	}
}

func TestFaultsAndHooks(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		a, srv := t.s.Host("a").FS(), t.s.Server()
		t.s.FailNext(syscall.EIO)
		t.want(a.Mkdir("d"), syscall.EIO)
		_, err := srv.List("d")
		t.want(err, fs.ErrNotExist)
		t.s.FailNext(Applied(syscall.EIO))
		t.want(a.Mkdir("d"), syscall.EIO)
		_, err = srv.List("d")
		t.ok(err)
		b := t.s.Host("b").Process()
		k := t.s.Ops() + 3
		t.s.At(k, b.Kill)
		t.ok(b.Mkdir("1"))
		t.ok(b.Mkdir("2"))
		t.want(b.Mkdir("3"), ErrKilled)
		if t.s.Ops() != k-1 {
			t.Errorf("killed after %d calls, want %d", t.s.Ops(), k-1)
		}
	})
}

func TestKilledCallMayHaveHappened(t *testing.T) {
	seeds(t, Config{Late: 0.5}, func(t *story1) string {
		p := t.s.Host("a").Process()
		t.s.Hang(func(op Op) bool { return op.Name == "d" })
		done := make(chan error)
		go func() { done <- p.Mkdir("d") }()
		time.Sleep(second)
		p.Kill()
		t.want(<-done, ErrKilled)
		_, err := t.s.Server().List("d")
		if err == nil {
			return "before"
		}
		b := t.s.Host("b").FS()
		for range 200 {
			if err := b.SyncDir("."); err != nil {
				t.Error(err)
			}
		}
		if _, err = t.s.Server().List("d"); err == nil {
			return "late"
		}
		return "never"
	}, "before", "late", "never")
}

func TestHangAndFreezeHoldCalls(t *testing.T) {
	story(t, Config{}, func(t *story1) {
		h := t.s.Host("a")
		p := h.FS()
		held := func(hold, release func()) {
			hold()
			done := make(chan error, 1)
			go func() { done <- p.SyncDir(".") }()
			time.Sleep(time.Minute)
			select {
			case <-done:
				t.Error("the call was released")
			default:
			}
			release()
			t.ok(<-done)
		}
		held(func() { t.s.Hang(func(Op) bool { return true }) }, t.s.Unhang)
		held(h.Freeze, h.Thaw)
	})
}

func TestDeadVolumeEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		h := s.Host("a")
		p := h.FS()
		h.Freeze()
		go func() { _ = p.Mkdir("d") }()
		if err := s.Run(nil); !errors.Is(err, ErrIdle) {
			t.Errorf("got %v", err)
		}
		s.Stop()
	})
}
