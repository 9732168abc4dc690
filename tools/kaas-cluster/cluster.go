package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/substrate"
)

// run starts the brokers and keeps them running until ctx ends.
func run(ctx, hurry context.Context, p plan, out *lines) (err error) {
	if p.brokers < 1 {
		return errors.New("--brokers must be 1 at least")
	}
	if p.binary == "" {
		remove, err := p.build(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, remove()) }()
	}
	var brokers []*broker
	for i := range p.brokers {
		b := newBroker(&p, i, out)
		if err := b.free(); err != nil {
			return err
		}
		brokers = append(brokers, b)
	}
	g, ctx := errgroup.WithContext(ctx)
	ready := make(chan *broker, len(brokers))
	for _, b := range brokers {
		g.Go(func() error { return b.keep(ctx, hurry, p.again, ready) })
	}
	g.Go(func() error { return greet(ctx, brokers, p.again, ready, out) })
	return g.Wait()
}

// greet says how to reach the brokers once all are ready.
func greet(ctx context.Context, brokers []*broker, again time.Duration, ready <-chan *broker, out *lines) error {
	for range brokers {
		select {
		case <-ctx.Done():
			return nil
		case <-ready:
		}
	}
	var addrs []string
	for _, b := range brokers {
		addrs = append(addrs, b.addr)
		out.say("broker %d  %s  http://%s  pid %d", b.id, b.addr, b.http, b.pid())
	}
	out.say("bootstrap.servers=%s", strings.Join(addrs, ","))
	text := "Ctrl-C ends all of them in order."
	if again > 0 {
		text += fmt.Sprintf(" Try kill -9 of one: it is started again after %v.", again)
	}
	out.say("%s", text)
	return nil
}

// build makes the broker's binary in a directory of its own, which remove removes.
func (p *plan) build(ctx context.Context) (remove func() error, err error) {
	temp, err := substrate.MakeDir(os.TempDir())
	if err != nil {
		return nil, err
	}
	dir := "kaas-cluster-" + rand.Text() // a process ID may have been another's, which was killed
	if err := temp.Mkdir(dir); err != nil {
		return nil, fmt.Errorf("directory of the binary: %w", err)
	}
	p.binary = filepath.Join(temp.Root(), dir, "kaas")
	remove = func() error { return errors.Join(temp.Remove(dir+"/kaas"), temp.Remove(dir)) }
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", p.binary, "kaas.dev/kaas/server/cmd/kaas")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("build the broker: %w\n%s", err, out), temp.Remove(dir))
	}
	return remove, nil
}
