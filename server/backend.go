package server

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// Backend is what the handlers need of the cluster; a broker is one.
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
	// what the edit made of the configuration; AlterGroupConfigs and AlterClientMetrics
	// when the view shows it.
	AlterTopicConfigs(ctx context.Context, id projections.TopicID, edit coordinator.ConfigEdit, validateOnly bool) error
	AlterBrokerConfigs(ctx context.Context, name string, edit coordinator.ConfigEdit, validateOnly bool) error
	AlterGroupConfigs(ctx context.Context, group string, edit coordinator.ConfigEdit, validateOnly bool) error
	AlterClientMetrics(ctx context.Context, name string, edit coordinator.ConfigEdit, validateOnly bool) error
	// AlterQuotas returns when the view shows the changes: all, or with an error none.
	AlterQuotas(ctx context.Context, changes []projections.QuotasChanged) error
	// AlterACLs returns when the view shows what the edit has made and deleted.
	AlterACLs(ctx context.Context, edit coordinator.ACLEdit) error
	DeleteTopic(ctx context.Context, id projections.TopicID) error
	// AlterUsers returns when the view shows the changes that decide makes of it. decide may run
	// again, on its own changes too.
	AlterUsers(ctx context.Context, decide func(*projections.Cluster) ([]projections.Fact, error)) error
	// GroupShard is the shard that coordinates a group, if this broker serves it: errors wrap
	// kerr.NotCoordinator, CoordinatorLoadInProgress while it is being opened, or
	// CoordinatorNotAvailable. GroupShards are those that are served here now; all is false
	// while some that are to be are not.
	GroupShard(group string) (groupShard, error)
	// GroupShardAt is a shard of groups by its number.
	GroupShardAt(index int32) (groupShard, error)
	GroupShards() (shards []groupShard, all bool)
	// TxnShard and TxnShards are likewise for transactional IDs.
	TxnShard(id string) (txnShard, error)
	TxnShards() (shards []txnShard, all bool)
	// JoinTxn has a transaction's coordinator, wherever it is, make parts of it, or with
	// verifyOnly say whether they are: with an error or nil for each, partitions first, or one
	// for all (KIP-890).
	JoinTxn(ctx context.Context, a txnshard.Add, verifyOnly bool) ([]error, error)
	// AllocateProducerIDs gives a block of IDs that nobody else gets.
	AllocateProducerIDs(ctx context.Context) (first, count int64, err error)
	// NewProducerID gives one ID that nobody else gets.
	NewProducerID(ctx context.Context) (int64, error)
	// CheckFresh is a Check begun after the call; Fresh one no older than maxAge.
	CheckFresh(ctx context.Context) error
	Fresh(ctx context.Context, maxAge time.Duration) error
	// IsController reports whether this broker is the controller.
	IsController() bool
	// ToController has the controller answer a request, whole and as it is, in the newest
	// version that both know. Unknown tags go along, and come back with the answer. Errors
	// wrap kerr.NotController where it has not reached one, or kerr.RequestTimedOut where
	// nobody knows. The request is ToController's to keep.
	ToController(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	// RegisterBroker, BrokerHeartbeat and the following are the controller's: others
	// answer NOT_CONTROLLER. HeartbeatLost must not wait.
	RegisterBroker(ctx context.Context, req *kmsg.BrokerRegistrationRequest) *kmsg.BrokerRegistrationResponse
	BrokerHeartbeat(ctx context.Context, req *kmsg.BrokerHeartbeatRequest) *kmsg.BrokerHeartbeatResponse
	HeartbeatLost(broker int32, brokerEpoch int64)
	UnregisterBroker(ctx context.Context, id int32) error
	// MoveLeaders returns when it is published who leads, with an error or nil for each.
	MoveLeaders(ctx context.Context, moves []coordinator.LeaderMove) []error
	// Moving are the handovers under way.
	Moving() []coordinator.LeaderMove
	// Shown is the newest position in the view; AwaitShown returns when pos is.
	Shown() substrate.Position
	AwaitShown(ctx context.Context, pos substrate.Position) error
	// Disk is how many bytes the volume has, and how many may still be written. It may hang
	// as long as the volume does.
	Disk() (total, usable int64, err error)
	// Ready reports that every partition assigned to this broker is served.
	Ready() bool
}
