// Package child runs brokers as processes of this one, for the tools.
//
// A Process is in a process group of its own, so that an interrupt from the terminal
// reaches the tool alone, which ends its processes in order. Settings of the tool's own
// environment (KAAS_…) are none of the broker's. Every Process is ended with End, which
// waits for it.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// Options are how a process is started.
type Options struct {
	Command string
	Args    []string
	Env     []string       // added to the environment
	Log     io.Writer      // takes all that it says; nil is nowhere
	Held    bool           // its standard input stays open for as long as this process lives
	Died    func(*Process) // is called when it has ended and End was not called; may be nil
}

// Process is a process that was started.
type Process struct {
	cmd   *exec.Cmd
	tail  tail
	ended chan struct{}
	mu    struct {
		sync.Mutex
		asked bool // End was called
	}
}

// Start starts a process.
func Start(o Options) (*Process, error) {
	p := &Process{ended: make(chan struct{})}
	p.cmd = exec.Command(o.Command, o.Args...)
	p.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KAAS_") }), o.Env...)
	var out io.Writer = &p.tail
	if o.Log != nil {
		out = io.MultiWriter(&p.tail, o.Log)
	}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if o.Held {
		if _, err := p.cmd.StdinPipe(); err != nil { // Wait closes it
			return nil, err
		}
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Command, err)
	}
	go func() { // End waits for it
		_ = p.cmd.Wait()
		p.mu.Lock()
		asked := p.mu.asked
		p.mu.Unlock()
		close(p.ended)
		if !asked && o.Died != nil {
			o.Died(p)
		}
	}()
	return p, nil
}

// Pid is the process's number.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running is whether the process is not gone.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// State is how an ended process ended, such as "exit status 3".
func (p *Process) State() string { return p.cmd.ProcessState.String() }

// Said is the last of what the process said.
func (p *Process) Said() string { return p.tail.String() }

// Signal sends a signal. An error says that the process is gone.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// End sends a signal and waits until the process is gone, or kills it when it is not
// gone after most. It returns how it ended.
func (p *Process) End(sig os.Signal, most time.Duration) string {
	p.mu.Lock()
	p.mu.asked = true
	p.mu.Unlock()
	_ = p.Signal(sig) // an error says that it is gone
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return p.State()
}

// AwaitAnswer asks a broker at addr for metadata until an answer names a broker, the process ends,
// or most is over.
func (p *Process) AwaitAnswer(ctx context.Context, addr string, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if Answers(ctx, addr) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer from %s: %w", addr, context.Cause(ctx))
		case <-p.ended:
			return errors.New("it ended: " + p.State())
		case <-tick.C:
		}
	}
}

// Answers is whether a broker at addr names a broker in its metadata.
func Answers(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false // a client would wait longer and longer before it tries again
	}
	conn.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return false
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, cl)
	return err == nil && len(resp.Brokers) > 0
}

// Build makes the broker's binary from this module.
func Build(ctx context.Context, bin string, tags ...string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", bin, "kaas.dev/kaas/server/cmd/kaas")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the broker: %w\n%s", err, out)
	}
	return nil
}

// given are the ports that FreeAddr has returned.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// FreeAddr is an address on loopback that nobody listened on a moment ago, and another one at
// each call. It is below the ports that outgoing connections take, so it stays free while a
// broker is down.
func FreeAddr() (string, error) {
	given.Lock()
	defer given.Unlock()
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	err := errors.New("no port of loopback is free")
	for range 100 {
		port := lowestPort + rand.IntN(ports)
		if given.ports[port] {
			continue
		}
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			given.ports[port] = true
			return l.Addr().String(), l.Close()
		}
	}
	return "", err
}

const (
	lowestPort = 12_000
	ports      = 20_000
)

// tail keeps the last of what a process says.
type tail struct {
	mu struct {
		sync.Mutex
		last []byte
	}
}

const tailBytes = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.last = append(t.mu.last, b...)
	if n := len(t.mu.last); n > tailBytes {
		t.mu.last = slices.Delete(t.mu.last, 0, n-tailBytes)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.mu.last)
}
