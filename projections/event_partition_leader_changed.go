package projections

import "fmt"

// PartitionLeaderChanged gives a partition a leader and a leader epoch that is
// above all before it. Leader is NoLeader where nobody serves it. Handover is set when
// the old leader lives and is to close before the new one claims.
type PartitionLeaderChanged struct {
	TopicID   TopicID `msgpack:"t" json:"topic_id"`
	Partition int32   `msgpack:"p" json:"partition"`
	Leader    int32   `msgpack:"l" json:"leader"`
	Epoch     int32   `msgpack:"e" json:"epoch"`
	Handover  bool    `msgpack:"h,omitempty" json:"handover,omitempty"`
}

func init() { register(func() Fact { return new(PartitionLeaderChanged) }) }

// EventName implements Fact.
func (*PartitionLeaderChanged) EventName() string { return "PartitionLeaderChanged" }

func (e *PartitionLeaderChanged) String() string {
	return fmt.Sprintf("partition %s/%d %s", e.TopicID, e.Partition, ledBy("is led by", e.Leader, e.Epoch, e.Handover))
}

func (e *PartitionLeaderChanged) apply(d *draft) {
	t := d.topics[e.TopicID]
	if t == nil || e.Partition < 0 || int(e.Partition) >= len(t.Partitions) || e.Epoch <= t.Partitions[e.Partition].Epoch {
		return
	}
	d.editTopic(e.TopicID).Partitions[e.Partition] = Partition{e.Leader, e.Epoch, e.Handover}
}
