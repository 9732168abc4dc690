package coordinator

import (
	"context"
	"errors"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// Broker is a running broker of this process.
type Broker struct{}

// TopicSpec is a topic to be made.
type TopicSpec struct {
	Name       string
	Partitions int32
	Configs    map[string]string
}

// ErrOtherNode means that the volume serves another node ID. The error that wraps
// it names both IDs and the directory.
var ErrOtherNode = errors.New("the directory belongs to another broker")

var errTodo = errors.New("not built yet")

// Start makes this process the broker of the volume.
func Start(ctx context.Context, v *substrate.Volume, opt Options) (*Broker, error) {
	return nil, errTodo
}

// View is the newest committed state of the cluster.
func (b *Broker) View() *projections.Cluster { return nil }

// Partition returns a partition that this broker serves now.
func (b *Broker) Partition(id projections.TopicID, index int32) (*partition.Partition, error) {
	return nil, errTodo
}

// CreateTopic makes a topic and returns when its partitions are open.
func (b *Broker) CreateTopic(ctx context.Context, spec TopicSpec, validateOnly bool) (*projections.Topic, error) {
	return nil, errTodo
}

// DeleteTopic deletes a topic.
func (b *Broker) DeleteTopic(ctx context.Context, id projections.TopicID) error { return errTodo }

// AllocateProducerIDs returns a block of producer IDs that nobody else gets.
func (b *Broker) AllocateProducerIDs(ctx context.Context) (first, count int64, err error) {
	return 0, 0, errTodo
}

// CheckFresh returns nil if nobody had fenced this broker's data at an instant after the call.
func (b *Broker) CheckFresh(ctx context.Context) error { return errTodo }

// Fresh is CheckFresh, content with a Check that began at most maxAge ago.
func (b *Broker) Fresh(ctx context.Context, maxAge time.Duration) error { return errTodo }

// Done is closed when the broker has ended; Err then tells why.
func (b *Broker) Done() <-chan struct{} { return nil }

// Err is nil while the broker runs.
func (b *Broker) Err() error { return nil }

// Ready reports whether every assigned partition is served.
func (b *Broker) Ready() bool { return false }

// Stop hands everything over and ends the broker.
func (b *Broker) Stop(ctx context.Context) error { return nil }
