package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/kube"
)

// ByLease is a Local whose controller is elected by a Lease. Each broker has a way of its own
// to the API server.
type ByLease struct {
	*Local
	server  *kube.Server
	ways    map[int32]*kube.Way
	restore bool
	log     *appender
}

var (
	_ API     = (*ByLease)(nil)
	_ Elected = (*ByLease)(nil)
)

const (
	apiDir = "kubernetes"
	// LeaseName is the name of the Lease.
	LeaseName = "kaas-controller"
)

// NewByLease starts the API server, makes the places of the brokers, and starts none. With
// restore, what the server knows when the brokers were started is kept for RestoreAPI.
func NewByLease(ctx context.Context, cfg Config, restore bool) (b *ByLease, err error) {
	if err := cfg.Dir.Mkdir(apiDir); err != nil {
		return nil, err
	}
	dir, err := substrate.OpenDir(filepath.Join(cfg.Dir.Root(), apiDir))
	if err != nil {
		return nil, err
	}
	f, err := cfg.Dir.CreateExclusive("k8snode.log")
	if err != nil {
		return nil, err
	}
	b = &ByLease{ways: map[int32]*kube.Way{}, restore: restore, log: &appender{f: f}}
	if b.server, err = kube.Start(ctx, dir, b.log); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer func() {
		if err != nil {
			b.server.Close()
			f.Close()
		}
	}()
	for i := range cfg.Brokers {
		if b.ways[int32(i+1)], err = b.server.Way(); err != nil {
			return nil, err
		}
	}
	cfg.Sets = append([]string{"controller.election=kubernetes", "controller.lease.name=" + LeaseName}, cfg.Sets...)
	cfg.EnvOf = func(node int32) []string { return []string{b.ways[node].KUBECONFIG()} }
	b.Local, err = NewLocal(cfg)
	return b, err
}

// Start implements Cluster.
func (b *ByLease) Start(ctx context.Context) error {
	if err := b.Local.Start(ctx); err != nil || !b.restore {
		return err
	}
	if err := b.server.Keep(ctx); err != nil {
		return err
	}
	return b.server.AwaitRenewal(ctx, LeaseName)
}

// Close implements Cluster.
func (b *ByLease) Close() {
	b.Local.Close()
	b.server.Close()
	b.log.f.Close()
}

// PauseAPI implements API.
func (b *ByLease) PauseAPI() error { return b.server.Pause() }

// ResumeAPI implements API.
func (b *ByLease) ResumeAPI() error { return b.server.Resume() }

// KillAPI implements API.
func (b *ByLease) KillAPI(ctx context.Context) error { return b.server.Kill(ctx) }

// RestoreAPI implements API.
func (b *ByLease) RestoreAPI(ctx context.Context) error { return b.server.Restore(ctx) }

// SlowAPI implements API.
func (b *ByLease) SlowAPI(by time.Duration) error {
	for _, w := range b.ways {
		w.Slow(by)
	}
	return nil
}

// CutAPI implements API.
func (b *ByLease) CutAPI(nodes ...int32) error {
	for _, n := range nodes {
		w := b.ways[n]
		if w == nil {
			return fmt.Errorf("there is no broker %d", n)
		}
		w.Cut()
	}
	return nil
}

// HealAPI implements API.
func (b *ByLease) HealAPI() error {
	for _, w := range b.ways {
		w.Heal()
	}
	return nil
}

// DeleteLease implements API.
func (b *ByLease) DeleteLease(ctx context.Context) error {
	return b.server.DeleteLease(ctx, LeaseName)
}

// Told implements Elected.
func (b *ByLease) Told(ctx context.Context) string {
	holder, n, err := b.server.Lease(ctx, LeaseName)
	return told(holder, n, err)
}

func told(holder string, transitions int32, err error) string {
	if err != nil {
		return fmt.Sprintf("the Lease cannot be read: %v", err)
	}
	return fmt.Sprintf("the Lease is held by broker %s, and went from one to another %d times since it was last made", holder, transitions)
}
