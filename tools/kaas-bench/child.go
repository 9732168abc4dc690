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

// spawn starts a server and waits until it answers.
func spawn(ctx context.Context, addr string, command string, args ...string) (*process, error) {
	began := time.Now()
	started, err := child.Start(child.Options{Command: command, Args: args})
	if err != nil {
		return nil, err
	}
	p := &process{Process: started, addr: addr}
	if err := p.AwaitAnswer(ctx, addr, time.Minute); err != nil {
		p.stop()
		return nil, fmt.Errorf("%s: %w; it said last:\n%s", command, err, p.Said())
	}
	p.answer = time.Since(began)
	return p, nil
}

// stop ends this one process: with SIGTERM, and with SIGKILL if it takes long.
func (p *process) stop() { p.End(syscall.SIGTERM, 20*time.Second) }
