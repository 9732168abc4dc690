package coordinator

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/projections"
)

// network joins the brokers of a test: they ask each other directly, by port.
type network struct {
	mu      sync.Mutex
	brokers map[int32]*Broker
	ports   int32          // given so far
	silent  map[int32]bool // brokers whose requests are lost
	kept    map[int32]bool // ports that are gone, to which a connection was kept
	last    map[int32]lastBeat
}

type lastBeat struct {
	epoch int64
	to    *Broker
}

// listen makes a port that takes connections, and answers when its broker is there.
func (n *network) listen(port int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.brokers == nil {
		n.brokers, n.last = map[int32]*Broker{}, map[int32]lastBeat{}
	}
	n.brokers[port] = nil
}

func (n *network) add(port int32, b *Broker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.brokers[port] = b
}

// drop ends a broker's listener and connections, as the end of its process does.
func (n *network) drop(port int32, id int32) {
	n.mu.Lock()
	delete(n.brokers, port)
	if n.kept == nil {
		n.kept = map[int32]bool{}
	}
	n.kept[port] = true
	l, ok := n.last[id]
	delete(n.last, id)
	n.mu.Unlock()
	if ok {
		l.to.HeartbeatLost(id, l.epoch)
	}
}

// vanish takes a broker's address away: what is sent there is lost, as with a pod that was
// removed.
func (n *network) vanish(port int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.brokers[port] = nil
}

func (n *network) Ask(ctx context.Context, to projections.Listener, req kmsg.Request) (kmsg.Response, error) {
	n.mu.Lock()
	b, listens := n.brokers[to.Port]
	lost := b == nil
	kept := n.kept[to.Port] && !beats(req) // those have a connection of their own
	if kept {
		delete(n.kept, to.Port)
	}
	if beat, ok := req.(*kmsg.BrokerHeartbeatRequest); ok {
		lost = lost || n.silent[beat.BrokerID]
	}
	n.mu.Unlock()
	switch {
	case kept: // the first request finds out that its connection has ended
		return nil, fmt.Errorf("port %d: %w", to.Port, io.EOF)
	case !listens:
		return nil, fmt.Errorf("dial port %d: %w", to.Port, syscall.ECONNREFUSED)
	case lost:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	switch r := req.(type) {
	case *kmsg.ApiVersionsRequest:
		return r.ResponseKind(), nil
	case *kmsg.BrokerRegistrationRequest:
		return b.RegisterBroker(ctx, r), nil
	case *kmsg.BrokerHeartbeatRequest:
		n.mu.Lock()
		n.last[r.BrokerID] = lastBeat{r.BrokerEpoch, b}
		n.mu.Unlock()
		return b.BrokerHeartbeat(ctx, r), nil
	case *kmsg.AllocateProducerIDsRequest:
		resp := r.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
		first, count, err := b.AllocateProducerIDs(ctx)
		resp.ProducerIDStart, resp.ProducerIDLen = first, int32(count)
		if err != nil {
			resp.ErrorCode = codeOf(err)
		}
		return resp, nil
	}
	return nil, fmt.Errorf("nobody answers a %T here", req)
}

// Stay holds until the port is dropped.
func (n *network) Stay(ctx context.Context, to projections.Listener) {
	for {
		n.mu.Lock()
		_, listens := n.brokers[to.Port]
		n.mu.Unlock()
		if !listens || !sleep.For(ctx, 10*time.Millisecond) {
			return
		}
	}
}

func (n *network) Close() {}
