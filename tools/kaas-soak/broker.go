package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"kaas.dev/kaas/tools/internal/child"
)

// broker is one broker process at a time on one volume and address.
type broker struct {
	bin, dir, addr string
	mu             struct {
		sync.Mutex
		process *child.Process
		ending  bool
	}
}

// start starts a process and returns when it answers. died is called if it ends and
// nobody has asked for that.
func (b *broker) start(ctx context.Context, died func(state string)) (time.Duration, error) {
	began := time.Now()
	p, err := child.Start(child.Options{
		Command: b.bin,
		Args: []string{"--set", "listeners=PLAINTEXT://" + b.addr, "--set", "log.dirs=" + b.dir, "--set", "http.listeners=127.0.0.1:0",
			"--set", "log.retention.check.interval.ms=500", "--set", "log.cleaner.backoff.ms=500"},
		Died: func(p *child.Process) { died(p.State()) },
	})
	if err != nil {
		return 0, err
	}
	b.mu.Lock()
	b.mu.process, b.mu.ending = p, false
	b.mu.Unlock()
	if err := p.AwaitAnswer(ctx, b.addr, time.Minute); err != nil {
		return 0, fmt.Errorf("the broker: %w", err)
	}
	return time.Since(began), nil
}

// end sends the process a signal and waits until it is gone, or kills it when it is
// not gone after most. It returns how it ended; "" is that there was none.
func (b *broker) end(sig os.Signal, most time.Duration) string {
	b.mu.Lock()
	p := b.mu.process
	b.mu.ending = true
	b.mu.Unlock()
	if p == nil {
		return ""
	}
	return p.End(sig, most)
}

// pid is that of the running process, or 0.
func (b *broker) pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.process == nil || b.mu.ending {
		return 0
	}
	return b.mu.process.Pid()
}

// said is the last of what the process said.
func (b *broker) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.process == nil {
		return ""
	}
	return b.mu.process.Said()
}
