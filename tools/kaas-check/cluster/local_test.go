package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kaas.dev/kaas/internal/substrate"
)

func newLocal(t *testing.T, cfg Config, script string) (*Local, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.Binary = d, filepath.Join(dir, "broker")
	if err := os.WriteFile(cfg.Binary, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := NewLocal(cfg)
	if err != nil {
		if l != nil && cfg.Small {
			l.Close()
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, dir
}

// A broker that ends instead of answering is an error with what it said, is told of, and is
// in its log.
func TestABrokerThatEnds(t *testing.T) {
	died := make(chan string, 1)
	l, dir := newLocal(t, Config{Brokers: 1, Env: []string{"KAAS_X=y"}, Died: func(_ int32, state string) { died <- state }}, `echo "no $2 $KAAS_X"; exit 1`)
	err := l.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no node.id=1 y") {
		t.Error(err)
	}
	if state := <-died; state != "exit status 1" {
		t.Error(state)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "broker-1.log")); err != nil || string(b) != "no node.id=1 y\n" {
		t.Errorf("%q, %v", b, err)
	}
	if err := l.Pause(1); err == nil {
		t.Error("a broker that does not run is stopped")
	}
	if err := l.Terminate(1); err != nil {
		t.Error(err)
	}
}

func TestAddressesAreApart(t *testing.T) {
	l, _ := newLocal(t, Config{Brokers: 3}, "exit 1")
	seen := map[string]bool{}
	for _, a := range l.Addrs() {
		seen[a] = true
	}
	if len(seen) != 6 || len(l.Nodes()) != 3 || l.Nodes()[0] != 1 {
		t.Error(l.Nodes(), l.Addrs())
	}
}

func TestFillAndFree(t *testing.T) {
	l, dir := newLocal(t, Config{Brokers: 1, Small: true}, "exit 1")
	full := func() bool {
		err := os.WriteFile(filepath.Join(dir, dataDir, "more"), make([]byte, 1<<20), 0o600)
		_ = os.Remove(filepath.Join(dir, dataDir, "more"))
		return errors.Is(err, syscall.ENOSPC)
	}
	for range 2 {
		if err := l.Fill(); err != nil {
			t.Fatal(err)
		}
		if !full() {
			t.Error("filled, and there is room")
		}
		if err := l.Free(); err != nil {
			t.Fatal(err)
		}
		if full() {
			t.Error("freed, and there is no room")
		}
	}
}

func TestAVolumeThatIsNotSmallIsNotFilled(t *testing.T) {
	l, _ := newLocal(t, Config{Brokers: 1}, "exit 1")
	if err := l.Fill(); err == nil {
		t.Error("it is filled")
	}
	if err := l.Free(); err != nil {
		t.Error(err)
	}
}
