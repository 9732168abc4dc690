package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is one broker process at a time on one volume and address.
type broker struct {
	bin, dir, addr string
	log            logTail
	mu             struct {
		sync.Mutex
		life *life
	}
}

// life is one process.
type life struct {
	cmd   *exec.Cmd
	ended chan struct{}
	ours  bool // we have ended it; guarded by the broker's mutex
}

// build makes the broker's binary.
func build(ctx context.Context, bin string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "kaas.dev/kaas/server/cmd/kaas")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the broker: %w\n%s", err, out)
	}
	return nil
}

// start starts a process and returns when it answers. died is called if it ends and
// nobody has asked for that.
func (b *broker) start(ctx context.Context, died func(state string)) (time.Duration, error) {
	l := &life{ended: make(chan struct{})}
	l.cmd = exec.Command(b.bin, "--set", "listeners=PLAINTEXT://"+b.addr, "--set", "log.dirs="+b.dir, "--set", "http.listeners=127.0.0.1:0",
		"--set", "log.retention.check.interval.ms=500", "--set", "log.cleaner.backoff.ms=500")
	l.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KAAS_") }) // ours are no settings
	l.cmd.Stdout, l.cmd.Stderr = &b.log, &b.log
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for us alone
	began := time.Now()
	if err := l.cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the broker: %w", err)
	}
	b.mu.Lock()
	b.mu.life = l
	b.mu.Unlock()
	go func() { // end waits for it
		_ = l.cmd.Wait()
		b.mu.Lock()
		ours := l.ours
		b.mu.Unlock()
		close(l.ended)
		if !ours {
			died(l.cmd.ProcessState.String())
		}
	}()
	err := b.awaitAnswer(ctx, l)
	return time.Since(began), err
}

func (b *broker) awaitAnswer(ctx context.Context, l *life) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if b.answers(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the broker does not answer: %w", context.Cause(ctx))
		case <-l.ended:
			return errors.New("the broker ended")
		case <-tick.C:
		}
	}
}

func (b *broker) answers(ctx context.Context) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", b.addr)
	if err != nil {
		return false // a client would wait longer and longer before it tries again
	}
	conn.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
	if err != nil {
		return false
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return cl.Ping(ctx) == nil
}

// end sends the process a signal and waits until it is gone, or kills it when it is
// not gone after most. It returns how it ended; "" is that there was none.
func (b *broker) end(sig os.Signal, most time.Duration) string {
	b.mu.Lock()
	l := b.mu.life
	if l != nil {
		l.ours = true
	}
	b.mu.Unlock()
	if l == nil {
		return ""
	}
	_ = l.cmd.Process.Signal(sig) // an error says that it is gone
	select {
	case <-l.ended:
	case <-time.After(most):
		_ = l.cmd.Process.Kill()
		<-l.ended
	}
	return l.cmd.ProcessState.String()
}

// pid is that of the running process, or 0.
func (b *broker) pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.life == nil || b.mu.life.ours {
		return 0
	}
	return b.mu.life.cmd.Process.Pid
}

// freeAddr is an address on loopback that nobody listened on a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// logTail keeps the last of what the processes say.
type logTail struct {
	mu struct {
		sync.Mutex
		last []byte
	}
}

const tailBytes = 4 << 10

func (t *logTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.last = append(t.mu.last, b...)
	if n := len(t.mu.last); n > tailBytes {
		t.mu.last = slices.Delete(t.mu.last, 0, n-tailBytes)
	}
	return len(b), nil
}

func (t *logTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.mu.last)
}
