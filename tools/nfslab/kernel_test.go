package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"kaas.dev/kaas/tools/nfslab/lab"
)

// TestKernelServer: what was synced survives a power loss of the server.
func TestKernelServer(t *testing.T) {
	need(t)
	if err := endCommon(); err != nil {
		t.Fatal(err)
	}
	l := bringUp(t, lab.Options{Hosts: 2, Kernel: true})
	defer func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
		wantNothingLeft(t)
	}()
	frozenReader(t, l)
	sh(t, l.Host(1), "echo kept > file && sync file && sync .")
	if err := l.Server().Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := l.Server().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, l.Host(2), "cat file"); got != "kept\n" {
		t.Errorf("after the server's power loss the file has %q", got)
	}
	sh(t, l.Host(1), "echo more >> file")
	t.Logf("written to again %v after the server's start", time.Since(began).Round(10*time.Millisecond))
}

// frozenReader: a host that reads a file again and again is frozen. Another one replaces
// the file meanwhile and does not wait for it, though this server gives delegations.
func frozenReader(t *testing.T, l *lab.Lab) {
	t.Helper()
	probe, err := l.Build(t.Context(), "kaas.dev/kaas/tools/nfslab/probe")
	if err != nil {
		t.Fatal(err)
	}
	const most, enough, last = 8 * time.Second, 30, 1_000_000 // a lease is ten seconds
	ctx, stop := context.WithCancel(t.Context())
	made, result := lines[change](ctx, l.Host(1), fmt.Sprintf("%s replace --who frozen --n %d --every 50ms", probe, last))
	if _, ok := <-made; !ok { // before the first there is nothing to open
		t.Fatal(result())
	}
	seen, seeing := lines[change](ctx, l.Host(2), fmt.Sprintf("%s reopen --who frozen --n %d --every 1ms", probe, last))
	defer func() {
		stop()
		_, _ = result(), seeing() // both were cut short
	}()
	for range 3 {
		if _, ok := <-seen; !ok {
			t.Fatal(seeing())
		}
	}
	if err := l.Host(2).Pause(); err != nil {
		t.Fatal(err)
	}
	frozen := time.Now()
	for len(made) > 0 { // what was made before
		<-made
	}
	var worst time.Duration
	for range enough {
		c, ok := <-made
		if !ok {
			t.Fatal(result())
		}
		worst = max(worst, time.Duration(c.At-c.Began))
	}
	t.Logf("%d replacements took %v", enough, time.Since(frozen).Round(time.Millisecond))
	if err := l.Host(2).Resume(); err != nil {
		t.Fatal(err)
	}
	t.Logf("while its reader was frozen, a file was replaced in at most %v", worst.Round(time.Millisecond))
	if worst > most {
		t.Errorf("a file was replaced only after %v while its reader was frozen", worst)
	}
}
