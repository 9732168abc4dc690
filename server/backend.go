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
	// Offline is why the volume keeps a partition of this broker from being served, or nil.
	Offline(id projections.TopicID, index int32) error
	// CreateTopic returns when the topic's partitions are open.
	CreateTopic(ctx context.Context, spec coordinator.TopicSpec, validateOnly bool) (*projections.Topic, error)
	// CreatePartitions returns when the new partitions are open.
	CreatePartitions(ctx context.Context, id projections.TopicID, count int32, validateOnly bool) error
	// AlterTopicConfigs and AlterBrokerConfigs return when running partitions go by
	// what the edit made of the configuration.
	AlterTopicConfigs(ctx context.Context, id projections.TopicID, edit coordinator.ConfigEdit, validateOnly bool) error
	AlterBrokerConfigs(ctx context.Context, name string, edit coordinator.ConfigEdit, validateOnly bool) error
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
