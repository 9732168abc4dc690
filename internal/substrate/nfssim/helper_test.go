package nfssim

import (
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// story runs f as the code under test, its calls released by a Sim.
func story(t *testing.T, cfg Config, f func(t *story1)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if cfg.Pause == 0 {
			cfg.Pause = -1 // a story controls its time
		}
		s := New(cfg)
		defer s.Stop()
		var done atomic.Bool
		go func() {
			defer done.Store(true)
			f(&story1{t, s})
		}()
		if err := s.Run(done.Load); err != nil {
			t.Error(err, s.Trace())
		}
	})
}

type story1 struct {
	*testing.T
	s *Sim
}

func (t *story1) ok(err error) {
	t.Helper()
	if err != nil {
		t.Errorf("unexpected: %v", err)
	}
}

func (t *story1) want(err error, any ...error) {
	t.Helper()
	for _, e := range any {
		if errors.Is(err, e) {
			return
		}
	}
	t.Errorf("got %v, want one of %v", err, any)
}

// write makes a file and closes it.
func (t *story1) write(fs substrate.FS, name, text string) {
	t.Helper()
	f, err := fs.CreateExclusive(name)
	if err != nil {
		t.Errorf("create: %v", err)
		return
	}
	_, err = f.WriteAt([]byte(text), 0)
	t.ok(err)
	t.ok(f.Datasync())
	t.ok(f.Close())
}

// replace puts a new file over name.
func (t *story1) replace(fs substrate.FS, name, text string) {
	t.Helper()
	t.write(fs, name+"~", text)
	t.ok(fs.Rename(name+"~", name))
}

func content(f substrate.File) (string, error) {
	b := make([]byte, 1000)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return string(b[:n]), err
}

// read opens, reads and closes.
func read(fs substrate.FS, name string) (string, error) {
	f, err := fs.Open(name)
	if err != nil {
		return "", err
	}
	text, err := content(f)
	_ = f.Close()
	return text, err
}

func (t *story1) reads(fs substrate.FS, name, want string) {
	t.Helper()
	if got, err := read(fs, name); err != nil || got != want {
		t.Errorf("%s reads %q, %v; want %q", name, got, err, want)
	}
}

func (t *story1) list(fs substrate.FS, name string) []string {
	t.Helper()
	l, err := fs.List(name)
	t.ok(err)
	names := []string{}
	for _, e := range l {
		names = append(names, e.Name)
	}
	return names
}

// seeds runs f with many seeds and wants each of the named outcomes seen.
func seeds(t *testing.T, cfg Config, f func(t *story1) string, outcomes ...string) {
	t.Helper()
	seen := map[string]int{}
	for seed := range int64(60) {
		cfg.Seed = seed
		story(t, cfg, func(t *story1) { seen[f(t)]++ })
	}
	for _, o := range outcomes {
		if seen[o] == 0 {
			t.Errorf("never saw %q, only %v", o, seen)
		}
		delete(seen, o)
	}
	if len(seen) > 0 {
		t.Errorf("saw also %v", seen)
	}
}

func outcome(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e.Error()
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

const second = time.Second
