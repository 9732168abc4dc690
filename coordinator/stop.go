package coordinator

import (
	"context"
	"errors"
	"fmt"
)

// Stop ends every leadership with a closed manifest, and the cluster stream's where this
// process has it, so that the next need not seal, and then the sessions.
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
	for _, s := range b.sessions() {
		err = errors.Join(err, s.Close(ctx))
	}
	b.end(nil)
	b.giveUp()
	b.peers.Close()
	if err != nil {
		return fmt.Errorf("stop broker %d: %w", b.opt.NodeID, err)
	}
	return nil
}
