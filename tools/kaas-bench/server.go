package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// server is a running contender.
type server struct {
	with  contender
	child *process
	dir   string // within the scratch directory
	idle  int64  // bytes of memory before any load
}

func (s *server) target(topic string, m mode, partitions int32) target {
	return target{
		Bootstrap: s.child.addr, Topic: topic, Partitions: partitions,
		Configs: s.with.topicConfigs(m), PID: s.child.Pid(),
	}
}

func (c *comparison) start(ctx context.Context, with contender, round int, m mode) (*server, error) {
	s := &server{with: with, dir: fmt.Sprintf("%s-%d-%.4s", with.name(), round, m)}
	var err error
	s.child, err = with.start(ctx, c.scratch, s.dir, m)
	return s, err
}

// idleTime is how long a server is left alone before its memory is looked at.
const idleTime = 2 * time.Second

// idle takes the memory of servers that have done nothing, then gives each a
// load that no figure is of: Java compiles what it is to be measured with.
func (c *comparison) idle(ctx context.Context, servers []*server, m mode) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(idleTime):
	}
	for _, s := range servers {
		u, err := usageOf(s.child.Pid())
		if err != nil {
			return err
		}
		s.idle = u.rss
	}
	for _, s := range servers {
		if err := c.warm(ctx, s, m); err != nil {
			return fmt.Errorf("warm up %s: %w", s.with.name(), err)
		}
	}
	return nil
}

func (c *comparison) warm(ctx context.Context, s *server, m mode) error {
	c.progress.prefix = "warming up " + s.with.name() + ": "
	t := s.target("warm", pageCache, 6)
	t.PID, t.progress = 0, c.progress
	if err := t.ensureTopic(ctx); err != nil {
		return err
	}
	if c.Txns {
		return c.warmTransactions(ctx, s, t, m)
	}
	warm := cell{Size: 100, Clients: 4}
	var g errgroup.Group
	g.Go(func() error {
		l := warm.produce(t, c.plan)
		l.Warmup, l.Duration = 0, 3*time.Second
		_, err := l.run(ctx)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if _, err := (&consumeLoad{target: t, Consumers: 1}).run(ctx); err != nil {
		return err
	}
	return c.remove(ctx, s, t)
}

// warmTransactions is the same for transactions.
func (c *comparison) warmTransactions(ctx context.Context, s *server, t target, m mode) error {
	if err := s.with.transactional(ctx, t, m); err != nil {
		return err
	}
	l := cell{Size: 100, Clients: 4}.transactions(t, c.plan)
	l.Warmup, l.Duration = 0, 5*time.Second
	if _, err := l.run(ctx); err != nil {
		return err
	}
	return c.remove(ctx, s, t)
}

// life notes what is told of a whole process.
func (s *server) life(f *findings, m mode) error {
	u, err := usageOf(s.child.Pid())
	if err != nil {
		return err
	}
	f.lives = append(f.lives, life{
		Server: s.with.name(), Mode: m, FirstAnswer: millis(s.child.answer), Idle: s.idle, Peak: u.peak,
	})
	return nil
}
