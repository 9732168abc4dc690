package coordinator

import (
	"context"
	"strconv"
	"sync"
	"time"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/projections"
)

// stayNearController holds a connection to the controller, so that its end is noticed at
// once and not at the next heartbeat.
func (b *Broker) stayNearController() {
	for b.run.Err() == nil {
		ctl, to, err := b.controllerAddress()
		if err != nil || ctl.ID == b.opt.NodeID {
			if b.awaitController(ctl) != nil {
				return
			}
			continue
		}
		ctx, cancel := context.WithCancel(b.run)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer cancel()
			_ = b.awaitView(ctx, func() bool { return b.View().Controller() != ctl.ID })
		})
		b.peers.Stay(ctx, to)
		cancel()
		wg.Wait()
		b.report()
		sleep.For(b.run, 100*time.Millisecond)
	}
}

// awaitController waits until the view names a controller other than ctl, or a living one.
func (b *Broker) awaitController(ctl projections.Broker) error {
	return b.awaitView(b.run, func() bool {
		now, _, err := b.controllerAddress()
		return err == nil && now.ID != b.opt.NodeID && (now.ID != ctl.ID || now.Epoch != ctl.Epoch)
	})
}

// noteController remembers of a controller whether it answered, or nobody listens any more
// where it did: then its process is gone. One that was never reached proves nothing; its
// address may be wrong.
func (b *Broker) noteController(ctl projections.Broker, err error) {
	switch was := b.reached.Load(); {
	case err == nil:
		b.reached.Store(&ctl)
		b.missed.Store(nil)
	case nobodyThere(err) && was != nil && was.ID == ctl.ID && was.Epoch == ctl.Epoch:
		b.missed.Store(&ctl)
	}
}

// controllerGone reports that a holder of the election was the controller, and its
// process is gone.
func (b *Broker) controllerGone(identity string) bool {
	m := b.missed.Load()
	if m == nil || strconv.Itoa(int(m.ID)) != identity {
		return false
	}
	now, ok := b.View().Broker(m.ID)
	return ok && now.Epoch == m.Epoch
}
