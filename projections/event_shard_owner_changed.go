package projections

import "fmt"

// ShardOwnerChanged gives a shard an owner and an epoch that is above all before it.
// Owner and Handover are meant as in PartitionLeaderChanged.
type ShardOwnerChanged struct {
	Kind     ShardKind `msgpack:"k" json:"kind"`
	Shard    int32     `msgpack:"s" json:"shard"`
	Owner    int32     `msgpack:"o" json:"owner"`
	Epoch    int32     `msgpack:"e" json:"epoch"`
	Handover bool      `msgpack:"h,omitempty" json:"handover,omitempty"`
}

func init() { register(func() Fact { return new(ShardOwnerChanged) }) }

// EventName implements Fact.
func (*ShardOwnerChanged) EventName() string { return "ShardOwnerChanged" }

func (e *ShardOwnerChanged) String() string {
	return fmt.Sprintf("shard %s/%02d %s", e.Kind, e.Shard, ledBy("is owned by", e.Owner, e.Epoch, e.Handover))
}

func (e *ShardOwnerChanged) apply(d *draft) {
	shards := d.shards[e.Kind]
	if e.Shard < 0 || int(e.Shard) >= len(shards) || e.Epoch <= shards[e.Shard].Epoch {
		return
	}
	d.editShards(e.Kind)[e.Shard] = Partition{e.Owner, e.Epoch, e.Handover}
}
