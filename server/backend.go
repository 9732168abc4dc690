package server

import (
	"context"
	"time"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// Backend is what the handlers need of the cluster; *coordinator.Broker is one.
type Backend interface {
	// View is the committed state of the cluster, never nil, read without locks.
	View() *projections.Cluster
	// Partition is a partition that this broker leads, or a kerr error.
	Partition(id projections.TopicID, index int32) (*partition.Partition, error)
	// CreateTopic returns when the topic's partitions are open.
	CreateTopic(ctx context.Context, spec coordinator.TopicSpec, validateOnly bool) (*projections.Topic, error)
	DeleteTopic(ctx context.Context, id projections.TopicID) error
	// AllocateProducerIDs gives a block of IDs that nobody else gets.
	AllocateProducerIDs(ctx context.Context) (first, count int64, err error)
	// CheckFresh is a Check begun after the call; Fresh one no older than maxAge.
	CheckFresh(ctx context.Context) error
	Fresh(ctx context.Context, maxAge time.Duration) error
	// Ready reports that every partition assigned to this broker is served.
	Ready() bool
}

var _ Backend = (*coordinator.Broker)(nil)
