package projections

import "fmt"

// ShardsMade says into how many shards the keys of a kind fall. The first of a kind
// counts: were the number to change, a key would be looked for in another shard.
type ShardsMade struct {
	Kind  ShardKind `msgpack:"kind" json:"kind"`
	Count int32     `msgpack:"count" json:"count"`
}

func init() { register(func() Fact { return new(ShardsMade) }) }

// EventName implements Fact.
func (*ShardsMade) EventName() string { return "ShardsMade" }

func (e *ShardsMade) String() string { return fmt.Sprintf("%d shard(s) of %s made", e.Count, e.Kind) }

func (e *ShardsMade) apply(d *draft) {
	if e.Kind == "" || e.Count < 1 || e.Count > MaxShards || d.shards[e.Kind] != nil {
		return
	}
	d.setShards(e.Kind, withLeaderless(nil, e.Count))
}
