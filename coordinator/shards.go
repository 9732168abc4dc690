package coordinator

import (
	"fmt"
	"path"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections"
)

// servedKinds are the kinds of shards that this build serves.
var servedKinds = []projections.ShardKind{projections.ShardGroups}

func shardStream(v *substrate.Volume, kind projections.ShardKind, index int32) string {
	return path.Join(v.MetaDir(), string(kind), fmt.Sprintf("%02d", index))
}

func (b *Broker) openShard(s *slot, t *tenure, want projections.Partition) (held, error) {
	opt := b.opt.Groups
	opt.Node, opt.View, opt.Now, opt.Log = b.opt.NodeID, b.View, b.opt.Now, b.log
	opt.Check = t.s.Check
	opt.HistoryAge, opt.HistoryEntries = b.opt.HistoryAge, shardHistory
	return groupshard.Open(b.run, t.s, shardStream(b.v, s.kind, s.index), want.Epoch, opt)
}

// shardHistory is how many entries of a shard's stream are kept.
const shardHistory = 1000

// GroupShard is the shard that a group falls into, if this broker serves it. Errors wrap
// kerr.NotCoordinator where another does, kerr.CoordinatorLoadInProgress while it is being
// opened, and kerr.CoordinatorNotAvailable while nobody can.
func (b *Broker) GroupShard(group string) (*groupshard.Shard, error) {
	index, ok := b.View().ShardOf(projections.ShardGroups, group)
	if !ok {
		return nil, fmt.Errorf("%w: the shards are not made yet", kerr.CoordinatorNotAvailable)
	}
	ss := b.slots.Load().shards[projections.ShardGroups]
	if int(index) >= len(ss) || ss[index] == nil {
		return nil, fmt.Errorf("%w: groups-%d is another's", kerr.NotCoordinator, index)
	}
	if h := ss[index].served(); h != nil {
		return h.(*groupshard.Shard), nil
	}
	if err := ss[index].offline(); err != nil {
		return nil, fmt.Errorf("%w: %w", kerr.CoordinatorNotAvailable, err)
	}
	return nil, fmt.Errorf("%w: groups-%d is being opened", kerr.CoordinatorLoadInProgress, index)
}

// GroupShards are the shards of groups that this broker serves. all is false while some that
// it is to serve are not open.
func (b *Broker) GroupShards() (out []*groupshard.Shard, all bool) {
	all = true
	eachSlot(b.slots.Load().shards[projections.ShardGroups], func(s *slot) {
		if h := s.served(); h != nil {
			out = append(out, h.(*groupshard.Shard))
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
