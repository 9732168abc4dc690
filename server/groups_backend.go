package server

import (
	"context"

	"kaas.dev/kaas/coordinator"
	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections/groups"
)

// groupShard is what the handlers need of a shard of the groups that this broker owns;
// *groupshard.Shard is one. Errors are *kerr.Error, wrapped.
type groupShard interface {
	// Join and Sync wait for the other members. What has no answer when ctx ends is
	// NOT_COORDINATOR.
	Join(ctx context.Context, group string, r classic.JoinRequest) classic.JoinAnswer
	Sync(ctx context.Context, group string, r classic.SyncRequest) classic.SyncAnswer
	Heartbeat(ctx context.Context, group, member string, instance *string, generation int32) error
	// Leave returns an error or nil for each member, or one for the group.
	Leave(ctx context.Context, group string, members []classic.LeaveMember) ([]error, error)
	Commit(ctx context.Context, c groupshard.Commit) error
	// CommitTxn stages offsets in a transaction that the group's shard is part of; Guard is
	// taken before anybody says that it is.
	Guard(p groupshard.Producer) (*groupshard.TxnGuard, func())
	CommitTxn(ctx context.Context, c groupshard.Commit, p groupshard.Producer, guard *groupshard.TxnGuard) error
	// EndTxn ends what a producer has staged in any group of the shard.
	EndTxn(ctx context.Context, p groupshard.Producer, commit bool, version int8) error
	// Fetch returns the group's newest committed state, nil if there is none.
	Fetch(ctx context.Context, group string, member *string, epoch int32) (*groups.Group, error)
	Describe(ctx context.Context, group string) (groupshard.Description, error)
	List(ctx context.Context) ([]groupshard.Listed, error)
	Delete(ctx context.Context, group string) error
	// DeleteOffsets returns an error or nil for each partition in order, or one for the group.
	DeleteOffsets(ctx context.Context, group string, topics []groups.TopicPartitions) ([]error, error)
	ConsumerHeartbeat(ctx context.Context, r consumer.HeartbeatRequest) (consumer.HeartbeatResponse, error)
}

var _ groupShard = (*groupshard.Shard)(nil)

// broker is the Backend that a coordinator.Broker is.
type broker struct{ *coordinator.Broker }

var _ Backend = broker{}

func (b broker) GroupShard(group string) (groupShard, error) {
	s, err := b.Broker.GroupShard(group)
	if err != nil {
		return nil, err // and not a nil pointer in an interface
	}
	return s, nil
}

func (b broker) GroupShardAt(index int32) (groupShard, error) {
	s, err := b.Broker.GroupShardAt(index)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (b broker) GroupShards() (out []groupShard, all bool) {
	shards, all := b.Broker.GroupShards()
	for _, s := range shards {
		out = append(out, s)
	}
	return out, all
}
