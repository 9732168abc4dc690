package child

import (
	"bytes"
	"context"
	"syscall"
	"testing"
	"time"
)

func TestEndTellsHow(t *testing.T) {
	for _, tc := range []struct {
		name, script, want string
		sig                syscall.Signal
		most               time.Duration
	}{
		{"killed", "echo up; exec sleep 60", "signal: killed", syscall.SIGKILL, time.Minute},
		{"by itself", "echo up; exit 3", "exit status 3", 0, time.Minute},
		{"too slow", "trap '' TERM; echo up; while :; do sleep 1; done", "signal: killed", syscall.SIGTERM, 50 * time.Millisecond},
	} {
		var log bytes.Buffer
		p, err := Start(Options{Command: "sh", Args: []string{"-c", tc.script}, Log: &log, Env: []string{"KAAS_X=1"}})
		if err != nil {
			t.Fatal(err)
		}
		for p.Said() == "" && p.Running() {
			time.Sleep(time.Millisecond)
		}
		if got := p.End(tc.sig, tc.most); got != tc.want || p.Said() != "up\n" || log.String() != "up\n" || p.Running() {
			t.Errorf("%s: %s, said %q, logged %q", tc.name, got, p.Said(), log.String())
		}
	}
}

func TestDiedIsToldOnlyUnasked(t *testing.T) {
	died := make(chan string, 2)
	o := Options{Command: "sh", Args: []string{"-c", "exit 7"}, Died: func(p *Process) { died <- p.State() }}
	p, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-died; got != "exit status 7" {
		t.Error(got)
	}
	p.End(syscall.SIGKILL, time.Second)
	o.Args = []string{"-c", "exec sleep 60"}
	o.Command = "sh"
	if p, err = Start(o); err != nil {
		t.Fatal(err)
	}
	p.End(syscall.SIGKILL, time.Second)
	select {
	case s := <-died:
		t.Errorf("told of an end that was asked for: %s", s)
	default:
	}
}

func TestAwaitAnswerOfAProcessThatEnds(t *testing.T) {
	addr, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(Options{Command: "sh", Args: []string{"-c", "exit 1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.End(syscall.SIGKILL, time.Second)
	if err := p.AwaitAnswer(context.Background(), addr, time.Minute); err == nil {
		t.Error("nobody listens there")
	}
}

// TestFreeAddr: an address is given away once, though nobody listens there.
func TestFreeAddr(t *testing.T) {
	seen := map[string]bool{}
	for range 500 { // of 20,000, so that two by chance would be the same
		addr, err := FreeAddr()
		if err != nil {
			t.Fatal(err)
		}
		if seen[addr] {
			t.Fatalf("%s is given away twice", addr)
		}
		seen[addr] = true
	}
}
