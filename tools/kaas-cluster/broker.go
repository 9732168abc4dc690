package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/sleep"
)

// broker is one broker, of which one process runs at a time.
type broker struct {
	id         int
	addr, http string
	binary     string
	args       []string
	out        *lines
	mu         struct {
		sync.Mutex
		process *os.Process
	}
}

func newBroker(p *plan, i int, out *lines) *broker {
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+i)) }
	b := &broker{id: i + 1, addr: at(p.port), http: at(p.http), binary: p.binary, out: out}
	for _, set := range append([]string{
		"node.id=" + strconv.Itoa(b.id), "listeners=PLAINTEXT://" + b.addr, "http.listeners=" + b.http,
		"log.dirs=" + p.dir, "log.level=" + p.logLevel,
	}, p.sets...) {
		b.args = append(b.args, "--set", set)
	}
	return b
}

func (b *broker) pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.process.Pid
}

// exitFenced is a broker's exit code when another process with its node.id took over.
const exitFenced = 3

// keep runs the broker until ctx ends, again after each end. It says once when the
// broker is ready. An end before that, or a newcomer with its node.id, is an error.
func (b *broker) keep(ctx, hurry context.Context, again time.Duration, ready chan<- *broker) error {
	for first := true; ; first = false {
		began := time.Now()
		l, err := b.start()
		if err != nil {
			return err
		}
		isReady := b.awaitReady(ctx, l)
		switch {
		case isReady && first:
			ready <- b
		case isReady:
			b.out.say("broker %d is ready again after %d ms, pid %d", b.id, time.Since(began).Milliseconds(), b.pid())
		}
		select {
		case <-ctx.Done():
			return b.end(hurry, l)
		case <-l.ended:
		}
		state := l.cmd.ProcessState
		switch {
		case first && !isReady, state.ExitCode() == exitFenced:
			return fmt.Errorf("broker %d has ended: %s", b.id, state)
		case again == 0:
			b.out.say("broker %d has ended: %s", b.id, state)
			return nil
		}
		b.out.say("broker %d has ended: %s; it is started again in %v", b.id, state, again)
		if !sleep.For(ctx, again) {
			return nil
		}
	}
}

// free says whether nobody else listens where the broker is to: the other's answers
// would pass for the broker's.
func (b *broker) free() error {
	for _, addr := range []string{b.addr, b.http} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("broker %d cannot have %s: %w", b.id, addr, err)
		}
		l.Close()
	}
	return nil
}

// life is one process.
type life struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

func (b *broker) start() (*life, error) {
	l := &life{cmd: exec.Command(b.binary, b.args...), ended: make(chan struct{})}
	l.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KAAS_") }) // ours are no settings
	said := &prefixed{prefix: fmt.Sprintf("%d | ", b.id), to: b.out}
	l.cmd.Stdout, l.cmd.Stderr = said, said
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the terminal is for us alone
	if err := l.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start broker %d: %w", b.id, err)
	}
	b.mu.Lock()
	b.mu.process = l.cmd.Process
	b.mu.Unlock()
	go func() { // keep waits for it
		_ = l.cmd.Wait()
		close(l.ended)
	}()
	return l, nil
}

// awaitReady waits until /readyz is green; false says that it will not be.
func (b *broker) awaitReady(ctx context.Context, l *life) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if b.isReady(ctx) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.ended:
			return false
		case <-tick.C:
		}
	}
}

func (b *broker) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.http+"/readyz", nil)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// mostStop is how long brokers may take to end in order.
const mostStop = 20 * time.Second

// end ends the process in order, and at once when there is a hurry.
func (b *broker) end(hurry context.Context, l *life) error {
	hurry, cancel := context.WithTimeout(hurry, mostStop)
	defer cancel()
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // an error says that it has ended
	select {
	case <-l.ended:
	case <-hurry.Done():
		_ = l.cmd.Process.Kill()
		<-l.ended
	}
	if !l.cmd.ProcessState.Success() {
		return errors.New("broker " + strconv.Itoa(b.id) + " has not ended in order: " + l.cmd.ProcessState.String())
	}
	b.out.say("broker %d has stopped", b.id)
	return nil
}
