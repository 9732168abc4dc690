package coordinator

import (
	"fmt"
	"path"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// servedKinds are the kinds of shards that this build serves.
var servedKinds = []projections.ShardKind{projections.ShardGroups, projections.ShardTxns}

func shardStream(v *substrate.Volume, kind projections.ShardKind, index int32) string {
	return path.Join(v.MetaDir(), string(kind), fmt.Sprintf("%02d", index))
}

func (b *Broker) openShard(s *slot, t *tenure, want projections.Partition) (held, error) {
	stream := shardStream(b.v, s.kind, s.index)
	if s.kind == projections.ShardTxns {
		opt := b.opt.Txns
		opt.Node, opt.View, opt.Now, opt.Log = b.opt.NodeID, b.View, b.opt.Now, b.log
		opt.HistoryAge, opt.HistoryEntries = b.opt.HistoryAge, shardHistory
		opt.Check, opt.NewProducerID, opt.Fence = t.s.Check, b.NewProducerID, b.fenceProducer
		opt.Deleted, opt.Markers = b.deleted, markers{b}
		return txnshard.Open(b.run, t.s, stream, want.Epoch, opt)
	}
	opt := b.opt.Groups
	opt.Node, opt.View, opt.Now, opt.Log = b.opt.NodeID, b.View, b.opt.Now, b.log
	opt.HistoryAge, opt.HistoryEntries = b.opt.HistoryAge, shardHistory
	opt.Check = t.s.Check
	return groupshard.Open(b.run, t.s, stream, want.Epoch, opt)
}

// shardHistory is how many entries of a shard's stream are kept.
const shardHistory = 1000

// GroupShard is the shard that a group falls into, if this broker serves it. Errors wrap
// kerr.NotCoordinator where another does, kerr.CoordinatorLoadInProgress while it is being
// opened, and kerr.CoordinatorNotAvailable while nobody can.
func (b *Broker) GroupShard(group string) (*groupshard.Shard, error) {
	return shardFor[*groupshard.Shard](b, projections.ShardGroups, group)
}

// GroupShards are the shards of groups that this broker serves. all is false while some that
// it is to serve are not open.
func (b *Broker) GroupShards() (out []*groupshard.Shard, all bool) {
	return shardsOf[*groupshard.Shard](b, projections.ShardGroups)
}

// GroupShardAt is a shard of groups by its number, with the errors of GroupShard.
func (b *Broker) GroupShardAt(index int32) (*groupshard.Shard, error) {
	return shardAt[*groupshard.Shard](b, projections.ShardGroups, index)
}

func shardFor[S held](b *Broker, kind projections.ShardKind, key string) (shard S, err error) {
	index, ok := b.View().ShardOf(kind, key)
	if !ok {
		return shard, fmt.Errorf("%w: the shards are not made yet", kerr.CoordinatorNotAvailable)
	}
	return shardAt[S](b, kind, index)
}

func shardAt[S held](b *Broker, kind projections.ShardKind, index int32) (shard S, err error) {
	ss := b.slots.Load().shards[kind]
	if index < 0 || int(index) >= len(ss) || ss[index] == nil {
		return shard, fmt.Errorf("%w: %s-%d is another's", kerr.NotCoordinator, kind, index)
	}
	if h := ss[index].served(); h != nil {
		return h.(S), nil
	}
	if err := ss[index].offline(); err != nil {
		return shard, fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, err)
	}
	return shard, fmt.Errorf("%w: %s-%d is being opened", kerr.CoordinatorLoadInProgress, kind, index)
}

func shardsOf[S held](b *Broker, kind projections.ShardKind) (out []S, all bool) {
	all = true
	eachSlot(b.slots.Load().shards[kind], func(s *slot) {
		if h := s.served(); h != nil {
			out = append(out, h.(S))
		} else {
			all = false
		}
	})
	return out, all
}

// forgetTopicsLocked tells the shards of topics that the new view lacks.
func (b *Broker) forgetTopicsLocked(gone []projections.TopicID) {
	if len(gone) == 0 {
		return
	}
	eachSlot(b.slots.Load().shards[projections.ShardGroups], func(s *slot) {
		if h := s.served(); h != nil {
			h.(*groupshard.Shard).TopicsDeleted(gone)
		}
	})
}

// viewChangedLocked tells the shards of transactions: their partitions may have other leaders.
func (b *Broker) viewChangedLocked() {
	eachSlot(b.slots.Load().shards[projections.ShardTxns], func(s *slot) {
		if h := s.served(); h != nil {
			h.(*txnshard.Shard).ViewChanged()
		}
	})
}
