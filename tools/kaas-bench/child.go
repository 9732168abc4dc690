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
	"github.com/twmb/franz-go/pkg/kmsg"
)

// child is a server that this run has started.
type child struct {
	cmd    *exec.Cmd
	addr   string
	log    logTail
	ended  chan struct{}
	answer time.Duration // from its start to the first answer that names a broker
}

// mostStart is how long a server may take to answer. It has work to do first where it
// was killed, and a machine that is busy with the others.
const mostStart = 3 * time.Minute

// spawn starts a server and waits until it answers.
func spawn(ctx context.Context, addr string, command string, args ...string) (*child, error) {
	c := &child{addr: addr, ended: make(chan struct{})}
	c.cmd = exec.Command(command, args...)
	// Settings of our own environment are none of the server's.
	c.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KAAS_") })
	c.cmd.Stdout, c.cmd.Stderr = &c.log, &c.log
	// In a group of its own an interrupt from the terminal reaches us alone, and we end it in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", command, err)
	}
	go func() { // stop waits for it
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	if err := c.awaitAnswer(ctx, mostStart); err != nil {
		c.stop()
		return nil, fmt.Errorf("%s: %w; it said last:\n%s", command, err, c.log.String())
	}
	c.answer = time.Since(began)
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// awaitAnswer asks for metadata until an answer names a broker.
func (c *child) awaitAnswer(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if c.answers(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer: %w", context.Cause(ctx))
		case <-c.ended:
			return errors.New("it ended")
		case <-tick.C:
		}
	}
}

func (c *child) answers(ctx context.Context) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return false // a client would wait longer and longer before it tries again
	}
	conn.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.addr))
	if err != nil {
		return false
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	return err == nil && len(resp.Brokers) > 0
}

// stop ends this one process: with SIGTERM, and with SIGKILL if it takes long.
func (c *child) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	c.await(20 * time.Second)
}

// await waits until a process has ended that was told to, and kills it when that
// takes longer than most.
func (c *child) await(most time.Duration) {
	select {
	case <-c.ended:
	case <-time.After(most):
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
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

// logTail keeps the last of what a process says.
type logTail struct {
	mu struct {
		sync.Mutex
		last []byte
	}
}

const tailBytes = 4096

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
