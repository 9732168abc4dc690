package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// tenure is the time of one data session. All that is served is served under one
// tenure, so that a Check of its session vouches for all of it: before the next
// begins, the old session is sealed and nothing of it is served any more.
type tenure struct {
	s *substrate.Session
	// served counts the partitions that are served under it. It grows only while
	// the tenure is the current one.
	served sync.WaitGroup
}

// setTenure begins a tenure and wakes who waits for one.
func (b *Broker) setTenure(t *tenure) {
	b.mu.Lock()
	b.data.Store(t)
	// What an older registration was given is not for this session: another may have it by
	// now, and would have to seal this one too.
	b.followLocked(b.view.Load(), b.view.Load())
	close(b.mu.tenured)
	b.mu.tenured = make(chan struct{})
	b.mu.Unlock()
	b.report()
}

// awaitTenure returns the current tenure, waiting while one replaces another.
func (b *Broker) awaitTenure(ctx context.Context) (*tenure, error) {
	for {
		b.mu.Lock()
		t, next := b.data.Load(), b.mu.tenured
		b.mu.Unlock()
		if t != nil {
			return t, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// admit counts one more partition in, unless t is not the current tenure any more.
func (b *Broker) admit(t *tenure, serve func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.data.Load() != t {
		return false
	}
	t.served.Add(1)
	serve()
	return true
}

// retire ends a tenure whose session was sealed, or cannot lead a stream again, and
// begins the next. One call does it; the others see that it is not current any more.
func (b *Broker) retire(t *tenure, cause error) {
	if !b.data.CompareAndSwap(t, nil) {
		return
	}
	b.log.Warn("data session is replaced", "session", t.s.ID(), "err", cause)
	if !b.spawn(func() { b.replace(t) }) {
		return // the broker leaves
	}
}

func (b *Broker) replace(t *tenure) {
	var p pace
	for {
		err := b.tryReplace(t)
		if err == nil || b.run.Err() != nil {
			return
		}
		b.log.Warn("data session cannot be replaced yet", "err", err)
		p.wait(b.run)
	}
}

func (b *Broker) tryReplace(t *tenure) error {
	if err := b.v.Seal(b.run, t.s.ID()); err != nil {
		return err
	}
	_ = t.s.Check(b.run) // closes Fenced, which the keepers watch
	if err := waitFor(b.run, &t.served); err != nil {
		return err
	}
	s, err := b.openSession(substrate.RoleData)
	if err != nil {
		return err
	}
	b.setTenure(&tenure{s: s})
	return nil
}

// watchData notices that the data session was sealed when nothing else goes on.
func (b *Broker) watchData() {
	tick := time.NewTicker(b.opt.CheckInterval)
	defer tick.Stop()
	for {
		t, err := b.awaitTenure(b.run)
		if err != nil {
			return
		}
		select {
		case <-b.run.Done():
			return
		case <-t.s.Fenced():
			b.retire(t, substrate.ErrFenced)
		case <-tick.C:
			if err := t.s.Check(b.run); errors.Is(err, substrate.ErrFenced) {
				b.retire(t, err)
			}
		}
	}
}

// CheckFresh returns nil if nobody had fenced this broker's data at an instant
// after the call. What a partition then says of itself is the newest there is, if
// the partition was taken from [Broker.Partition] after this returned.
func (b *Broker) CheckFresh(ctx context.Context) error {
	t := b.data.Load()
	if t == nil || b.run.Err() != nil {
		return fmt.Errorf("%w: no data session", kerr.NotLeaderForPartition)
	}
	err := t.s.Check(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, substrate.ErrFenced):
		return fmt.Errorf("%w: %w", kerr.NotLeaderForPartition, err)
	}
	return clientError(err)
}

// Fresh is CheckFresh, content with a Check that began at most maxAge ago.
func (b *Broker) Fresh(ctx context.Context, maxAge time.Duration) error {
	t := b.data.Load()
	if t != nil && b.run.Err() == nil && !t.s.IsFenced() && time.Since(t.s.LastCheck()) <= maxAge {
		return nil
	}
	return b.CheckFresh(ctx)
}

// waitFor waits for wg or for ctx. The waiter itself ends with the group.
func waitFor(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
