package server

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"kaas.dev/kaas/projections"
)

const (
	reachEvery = 50 * time.Millisecond
	reachDial  = 300 * time.Millisecond
)

// awaitReached waits until this broker can be connected to by what it advertises, or
// AdvertisedWait is over. Others hand leaders over to a broker as soon as it takes part, and
// whatever leads clients to it (names, node ports, balancers) may learn of it later: until
// then nobody could reach what it leads. The listeners are bound, so the kernel answers. An
// address that leads here from elsewhere, but not from here, costs the time and no more.
func (n *Node) awaitReached(ctx context.Context, listeners []projections.Listener) {
	if n.cfg.AdvertisedWait == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.AdvertisedWait)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range listeners {
		wg.Go(func() {
			addr := net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
			why := fmt.Errorf("the broker cannot be reached yet by what it advertises, %s", addr)
			n.waits.Store(&why)
			if err := reach(ctx, addr); err != nil {
				n.log.Warn("starting all the same: not reached from here by what is advertised", "listener", l.Name, "address", addr, "err", err)
			}
		})
	}
	wg.Wait()
	n.waits.Store(nil)
}

// reach connects to addr, again and again.
func reach(ctx context.Context, addr string) error {
	tick := time.NewTicker(reachEvery)
	defer tick.Stop()
	d := net.Dialer{Timeout: reachDial}
	for {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
