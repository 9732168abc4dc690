package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/tools/nfslab/lab"
)

// wantNothingLeft looks for whatever a lab makes.
func wantNothingLeft(t *testing.T) {
	t.Helper()
	for _, p := range []string{"/run/netns/kaas-nfslab", "/run/kaas-nfslab", filepath.Join(os.TempDir(), "kaas-nfslab")} {
		if _, err := os.Lstat(p); err == nil {
			t.Errorf("%s is left", p)
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), "kaas-nfslab") {
		t.Errorf("a mount is left: %v\n%s", err, mounts)
	}
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if b, _ := os.ReadFile(name); strings.Contains(string(b), "kaas-nfslab/") { // of a process that is gone otherwise
			t.Errorf("%s is left: %s", name, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
}

// TestFailedUpLeavesNothing has the first mount fail.
func TestFailedUpLeavesNothing(t *testing.T) {
	need(t)
	if err := endCommon(); err != nil {
		t.Fatal(err)
	}
	_, err := lab.Up(t.Context(), lab.Options{Hosts: 1, Mount: "nosuchoption"})
	if err == nil || !strings.Contains(err.Error(), "nosuchoption") {
		t.Errorf("up with a bad mount option: %v, want an error that names it", err)
	}
	wantNothingLeft(t)
}

// TestUpAfterACrash: a process makes a lab and ends without a word. While it lived a
// second lab was refused; now it takes the first one's place.
func TestUpAfterACrash(t *testing.T) {
	need(t)
	if err := endCommon(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashVar+"=1")
	out, err := cmd.Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != crashCode {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := os.Lstat("/run/netns/kaas-nfslab"); err != nil {
		t.Fatalf("the crashed run has left no lab: %v\n%s", err, out)
	}
	hosts(t)
	_, err = lab.Up(t.Context(), lab.Options{Hosts: 1})
	if err == nil || !strings.Contains(err.Error(), "nfslab down") {
		t.Errorf("a second lab: %v, want to be told to take the first one down", err)
	}
}

// TestFaults: each fault shows, and is over when it is taken back.
func TestFaults(t *testing.T) {
	l, _ := hosts(t)
	one, two := l.Host(1), l.Host(2)
	answers := func(h *lab.Host, command string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err := h.Exec(ctx, command)
		return err
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(h *lab.Host, command, fault string) {
		t.Helper()
		if answers(h, command) == nil {
			t.Errorf("%s: %q was done all the same", fault, command)
		}
	}
	write := "echo x > file && sync file"
	sh(t, one, write)

	must(one.Pause())
	refused(one, "true", "paused host")
	sh(t, two, write)
	must(one.Resume())
	sh(t, one, "true")

	must(one.Cut(t.Context()))
	refused(one, "true", "cut host")
	must(one.Heal(t.Context()))
	sh(t, one, "true")

	must(l.Server().Pause())
	refused(one, write, "paused server")
	must(l.Server().Resume())
	sh(t, one, write)

	must(l.Server().Kill())
	refused(one, write, "killed server")
	must(l.Server().Start(t.Context()))
	sh(t, one, write)

	must(one.Kill())
	refused(one, "true", "killed host")
	must(one.Boot(t.Context()))
	sh(t, one, "test -s file")
}

// TestProcesses: background processes, their codes, and what becomes of callers when
// the host goes.
func TestProcesses(t *testing.T) {
	l, _ := hosts(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h := l.Host(2)
	for command, want := range map[string]int{"echo hello; exit 3": 3, "kill -9 $$": 128 + 9} {
		p, err := h.Spawn(ctx, "test", command)
		if err != nil {
			t.Fatal(err)
		}
		if code, err := p.Wait(ctx); err != nil || code != want {
			t.Errorf("%q: code %d, %v, want %d", command, code, err, want)
		}
		if want == 3 && p.End() != "hello\n" {
			t.Errorf("%q: log %q", command, p.End())
		}
	}
	var bad *lab.ExitError
	if _, err := h.Exec(ctx, "echo no >&2; exit 4"); !errors.As(err, &bad) || bad.Code != 4 || bad.Output != "no\n" {
		t.Errorf("a command that fails: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := h.Exec(ctx, "echo started > started; sleep 60")
		done <- err
	}()
	sh(t, l.Host(1), "until ls | grep -q started; do sleep 0.1; done")
	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("a command on a host that is killed: %v", err)
	}
	if err := h.Boot(ctx); err != nil {
		t.Fatal(err)
	}
}
