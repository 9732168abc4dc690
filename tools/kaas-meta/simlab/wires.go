package simlab

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/projections"
)

// wires join the brokers of a test: they ask each other directly, by node ID.
type wires struct {
	mu      sync.Mutex
	brokers map[int32]*coordinator.Broker
	err     error
}

func (w *wires) add(id int32, b *coordinator.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.brokers[id] = b
}

func (w *wires) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *wires) bad() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *wires) all() (out []*coordinator.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(w.brokers)) {
		out = append(out, w.brokers[id])
	}
	return out
}

// Ask implements coordinator.Peers.
func (w *wires) Ask(ctx context.Context, to projections.Listener, req kmsg.Request) (kmsg.Response, error) {
	w.mu.Lock()
	b := w.brokers[to.Port]
	w.mu.Unlock()
	if b == nil {
		if to.Port > 0 { // it listens, and does not answer yet
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return nil, syscall.ECONNREFUSED
	}
	switch q := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return q.ResponseKind(), nil
	case *kmsg.BrokerRegistrationRequest:
		return b.RegisterBroker(ctx, q), nil
	case *kmsg.BrokerHeartbeatRequest:
		return b.BrokerHeartbeat(ctx, q), nil
	}
	return nil, fmt.Errorf("nobody answers a %T here", req)
}

// Stay implements coordinator.Peers.
func (w *wires) Stay(ctx context.Context, _ projections.Listener) { <-ctx.Done() }

// Close implements coordinator.Peers.
func (w *wires) Close() {}
