package livetest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a program that was started. It has a group of its own, and is gone at the test's
// end.
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	log   *logged
	ended chan struct{}
}

// logged is all that a program has said.
type logged struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// launch starts a program whose standard input stays open until it is ended.
func launch(t *testing.T, log *logged, bin string, args ...string) *process {
	t.Helper()
	p := &process{name: bin[strings.LastIndexByte(bin, '/')+1:], cmd: exec.Command(bin, args...), log: log, ended: make(chan struct{})}
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KAAS_") }) // ours are no settings
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // end waits for it
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.end(t, syscall.SIGKILL)
		if t.Failed() {
			said := log.String()
			t.Logf("the last of %s:\n%s", p.name, said[max(0, len(said)-6000):])
		}
	})
	return p
}

// end sends a signal and waits until the process is gone.
func (p *process) end(t *testing.T, sig syscall.Signal) *os.ProcessState {
	t.Helper()
	_ = p.cmd.Process.Signal(sig) // an error says that it is gone
	select {
	case <-p.ended:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		t.Errorf("%s had to be killed", p.name)
	}
	_ = p.stdin.Close()
	return p.cmd.ProcessState
}

func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
}

// build makes a program of a module.
func build(t *testing.T, module, bin, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-o", bin, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
}

// patience is how long what is waited for may take: a machine may be slow, and has other work.
const patience = 2 * time.Minute

// eventually waits until what says nothing more.
func eventually(t *testing.T, what string, missing func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for tick := time.NewTicker(30 * time.Millisecond); ; {
		m := missing()
		if m == "" {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			tick.Stop()
			t.Fatalf("%s: not after %v: %s", what, patience, m)
		}
		<-tick.C
	}
}
