package coordinator

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// LeaderMove is a partition that another broker is to lead.
type LeaderMove struct {
	TopicID   projections.TopicID
	Partition int32
	From      int32 // who leads it, or projections.NoLeader; not looked at by MoveLeaders
	To        int32
}

// IsController reports whether this process owns the cluster stream.
func (b *Broker) IsController() bool { return true }

// ToController sends a request to the controller and returns its answer, with the unknown
// tags of both. It goes to that broker alone: a client that splits requests by broker
// loses the answer's tags. Errors wrap kerr.NotController where the request has not
// reached one, or kerr.RequestTimedOut where nobody knows.
func (b *Broker) ToController(context.Context, kmsg.Request) (kmsg.Response, error) {
	return nil, fmt.Errorf("%w: this broker is its own controller", kerr.NotController)
}

// RegisterBroker answers a broker that wants to belong to the cluster.
func (b *Broker) RegisterBroker(_ context.Context, req *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	known, ok := b.View().Broker(req.BrokerID)
	if !ok {
		resp.ErrorCode = kerr.DuplicateBrokerRegistration.Code
		return resp
	}
	resp.BrokerEpoch = known.Epoch
	return resp
}

// BrokerHeartbeat answers a broker that says it lives.
func (b *Broker) BrokerHeartbeat(_ context.Context, req *kmsg.BrokerHeartbeatRequest) *kmsg.BrokerHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	switch known, ok := b.View().Broker(req.BrokerID); {
	case !ok:
		resp.ErrorCode = kerr.BrokerIDNotRegistered.Code
	case known.Epoch != req.BrokerEpoch:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
	default:
		resp.IsCaughtUp, resp.IsFenced = true, known.Fenced
	}
	return resp
}

// HeartbeatLost says that the connection which carried the newest heartbeat of a
// broker is gone. It must not wait.
func (b *Broker) HeartbeatLost(int32, int64) {}

// UnregisterBroker takes a broker out of the cluster.
func (b *Broker) UnregisterBroker(_ context.Context, id int32) error {
	if id == b.opt.NodeID {
		return fmt.Errorf("%w: broker %d is the controller", kerr.InvalidRequest, id)
	}
	return fmt.Errorf("%w: %d", kerr.BrokerIDNotRegistered, id)
}

// MoveLeaders has other brokers lead partitions. It returns when that is published,
// with an error or nil for each move.
func (b *Broker) MoveLeaders(_ context.Context, moves []LeaderMove) []error {
	errs := make([]error, len(moves))
	for i, m := range moves {
		if m.To != b.opt.NodeID {
			errs[i] = fmt.Errorf("%w: broker %d is not known", kerr.InvalidReplicaAssignment, m.To)
		}
	}
	return errs
}

// Moving are the handovers under way.
func (b *Broker) Moving() []LeaderMove { return nil }

// Shown is the newest position in the view.
func (b *Broker) Shown() substrate.Position {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.shown
}

// AwaitShown returns when the view shows pos.
func (b *Broker) AwaitShown(ctx context.Context, pos substrate.Position) error {
	if !b.Shown().Less(pos) {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}
