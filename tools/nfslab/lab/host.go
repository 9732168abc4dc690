package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"kaas.dev/kaas/tools/nfslab/agent"
)

// bootTime is the most that a host may take, many times the usual on a busy machine.
const bootTime = 3 * time.Minute

// Host is one host: a kernel of its own in a process of this machine.
type Host struct {
	lab *Lab
	n   int

	mu struct {
		sync.Mutex
		life context.Context // ends with Kill, so that nobody waits for a host that is gone
		end  context.CancelCauseFunc

		ahead time.Duration // that the clock is to be of this machine's
	}
}

func newHost(l *Lab, n int) *Host {
	h := &Host{lab: l, n: n}
	h.mu.life, h.mu.end = context.WithCancelCause(context.Background())
	return h
}

func hostName(n int) string { return "host" + strconv.Itoa(n) }

// Name is host1 and so on, also the host's own name for itself.
func (h *Host) Name() string { return hostName(h.n) }

// Number is the host's number, from 1.
func (h *Host) Number() int { return h.n }

// Status is one word or two of what the host does.
func (h *Host) Status() string { return status(h.Name()) }

// Addr is the host's address in the lab.
func (h *Host) Addr() string { return Addr(h.n) }

// Boot starts a host that does not run and returns when it has mounted the volume. If
// that fails it does not run afterwards either.
func (h *Host) Boot(ctx context.Context) error {
	if _, err := running(h.Name()); err == nil {
		return fmt.Errorf("%s runs already", h.Name())
	}
	conf, err := h.configure()
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.mu.life, h.mu.end = context.WithCancelCause(context.Background())
	h.mu.Unlock()
	args := []string{"linux.uml", fmt.Sprintf("mem=%dM", h.lab.st.MemMB), "rootfstype=hostfs", "rootflags=/", "ro",
		"init=" + h.lab.guest(), "uml_dir=" + h.lab.run(""), "umid=" + h.Name() + "-" + uuid.NewString()[:8],
		"eth0=tuntap," + tap(h.n) + "," + mac(h.n), "con=null", "con0=null,fd:1", "ssl=null", "quiet", "panic=1", "NFSLAB_CONFIG=" + conf}
	if h.n == 0 {
		args = append(args, "ubd0="+h.lab.run(imageName))
	}
	p, err := h.lab.start(h.Name(), h.lab.log(h.Name()), args...)
	if err != nil {
		return fmt.Errorf("boot %s: %w", h.Name(), err)
	}
	err = await(ctx, "boot of "+h.Name(), bootTime, func(ctx context.Context) (bool, error, error) {
		if !p.alive() {
			return false, nil, fmt.Errorf("%s has ended: %s", h.Name(), end(h.lab.log(h.Name())))
		}
		return h.ready(ctx)
	})
	if err == nil {
		err = h.setClock(ctx)
	}
	if err != nil {
		return errors.Join(err, h.Kill())
	}
	return nil
}

func (h *Host) configure() (string, error) {
	c := agent.Config{Name: h.Name(), Addr: h.Addr() + "/24", Agent: h.Addr() + ":" + agentPort, Logs: h.lab.Logs()}
	if h.n == 0 {
		c.Subnet = subnet
	} else {
		c.Server, c.Mount = h.lab.Server().Addr(), h.lab.st.Mount
	}
	file := h.lab.run(h.Name() + ".json")
	return file, writeJSON(file, c)
}

// ready asks the agent, which answers as soon as the network is up, but 503 until all
// is mounted, and 500 when that failed.
func (h *Host) ready(ctx context.Context) (bool, error, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	resp, err := h.ask(ctx, http.MethodGet, "/ready", "")
	if err != nil {
		return false, err, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	switch resp.StatusCode {
	case http.StatusOK:
		return true, nil, nil
	case http.StatusInternalServerError:
		return false, nil, fmt.Errorf("%s: %s", h.Name(), text)
	}
	return false, errors.New(string(text)), nil
}

// Kill is a power loss: whatever the host had not sent is gone. A host that does not
// run is no error.
func (h *Host) Kill() error {
	h.mu.Lock()
	h.mu.end(fmt.Errorf("%s was killed", h.Name()))
	h.mu.Unlock()
	return endRecorded(context.Background(), h.Name())
}

// Pause freezes the host, as when a virtual machine is stopped.
func (h *Host) Pause() error { return h.signal(syscall.SIGSTOP) }

// Resume thaws it.
func (h *Host) Resume() error { return h.signal(syscall.SIGCONT) }

// signal goes to the host's kernel alone: it traces the processes on the host, which
// cannot run without it.
func (h *Host) signal(sig syscall.Signal) error {
	p, err := running(h.Name())
	if err != nil {
		return err
	}
	return p.signal(sig)
}

// Cut takes the host off the network.
func (h *Host) Cut(ctx context.Context) error { return h.link(ctx, "down") }

// Heal puts it back.
func (h *Host) Heal(ctx context.Context) error { return h.link(ctx, "up") }

func (h *Host) link(ctx context.Context, to string) error {
	_, err := command(ctx, "ip", "-n", netns, "link", "set", tap(h.n), to)
	return err
}

// alive gives a context that ends with the host too.
func (h *Host) alive(ctx context.Context) (context.Context, context.CancelFunc) {
	h.mu.Lock()
	life := h.mu.life
	h.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func() { stop(); cancel(nil) }
}
