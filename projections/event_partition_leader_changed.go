package projections

import "fmt"

// PartitionLeaderChanged gives a partition a leader and a leader epoch that is
// above all before it. Leader is NoLeader where nobody serves it.
type PartitionLeaderChanged struct {
	TopicID   TopicID `msgpack:"t" json:"topic_id"`
	Partition int32   `msgpack:"p" json:"partition"`
	Leader    int32   `msgpack:"l" json:"leader"`
	Epoch     int32   `msgpack:"e" json:"epoch"`
}

func init() { register(func() Fact { return new(PartitionLeaderChanged) }) }

// EventName implements Fact.
func (*PartitionLeaderChanged) EventName() string { return "PartitionLeaderChanged" }

func (e *PartitionLeaderChanged) String() string {
	return fmt.Sprintf("partition %s/%d is led by broker %d, epoch %d", e.TopicID, e.Partition, e.Leader, e.Epoch)
}

func (e *PartitionLeaderChanged) apply(d *draft) {
	t := d.topics[e.TopicID]
	if t == nil || e.Partition < 0 || int(e.Partition) >= len(t.Partitions) || e.Epoch <= t.Partitions[e.Partition].Epoch {
		return
	}
	d.editTopic(e.TopicID).Partitions[e.Partition] = Partition{Leader: e.Leader, Epoch: e.Epoch}
}
