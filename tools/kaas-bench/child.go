package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"kaas.dev/kaas/tools/internal/child"
)

// process is a server that this run has started.
type process struct {
	*child.Process
	addr   string
	answer time.Duration // from its start to the first answer that names a broker
}

// mostStart is how long a server may take to answer. It has work to do first where it
// was killed, and a machine that is busy with the others.
const mostStart = 3 * time.Minute

// spawn starts a server and waits until it answers.
func spawn(ctx context.Context, addr string, command string, args ...string) (*process, error) {
	began := time.Now()
	started, err := child.Start(child.Options{Command: command, Args: args})
	if err != nil {
		return nil, err
	}
	p := &process{Process: started, addr: addr}
	if err := p.AwaitAnswer(ctx, addr, mostStart); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w; it said last:\n%s", command, err, p.Said())
	}
	p.answer = time.Since(began)
	return p, nil
}

// await waits until a process has ended that was told to, and kills it when that takes
// longer than most.
func (p *process) await(most time.Duration) {
	select {
	case <-p.Ended():
	case <-time.After(most):
		p.End(syscall.SIGKILL, most)
	}
}

// stop ends this one process: with SIGTERM, and with SIGKILL if it takes long.
func (p *process) stop() { p.End(syscall.SIGTERM, 20*time.Second) }
