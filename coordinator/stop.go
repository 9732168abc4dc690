package coordinator

import (
	"context"
	"errors"
	"fmt"

	"kaas.dev/kaas/metalog"
)

// Stop hands every partition over with a closed manifest, then closes the cluster
// stream, so that the next process need not seal this one, and ends the sessions.
// After a fence it only waits for what is under way. When ctx ends it gives up: a
// call that hangs on the volume stays behind, and its error is ctx's.
func (b *Broker) Stop(ctx context.Context) error {
	b.mu.Lock()
	first := !b.mu.stopping
	b.mu.stopping = true
	b.mu.Unlock()
	if !first {
		select {
		case <-b.stopped:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(b.stopped)
	b.leave()
	detach := context.AfterFunc(ctx, b.giveUp)
	defer detach()
	err := waitFor(ctx, &b.wg)
	err = errors.Join(err, b.closeStream(ctx))
	for _, s := range b.sessions() {
		err = errors.Join(err, s.Close(ctx))
	}
	b.end(nil)
	b.giveUp()
	if err != nil {
		return fmt.Errorf("stop broker %d: %w", b.opt.NodeID, err)
	}
	return nil
}

func (b *Broker) closeStream(ctx context.Context) error {
	l := b.leading()
	if b.Err() != nil || l.w.Err() != nil {
		return l.w.Abandon(ctx)
	}
	if err := l.w.Close(ctx); err != nil && !errors.Is(err, metalog.ErrClosed) {
		return err
	}
	return nil
}
