package main

import (
	"context"
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
