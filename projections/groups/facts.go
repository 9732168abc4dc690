package groups

import "kaas.dev/kaas/projections"

// OffsetsCommitted: the group's offsets of some partitions are these from now on.
type OffsetsCommitted struct {
	Group  string         `msgpack:"g" json:"group"`
	Time   int64          `msgpack:"t" json:"time"` // milliseconds since 1970
	Topics []TopicOffsets `msgpack:"o" json:"topics"`
}

// TopicOffsets are offsets of one topic's partitions.
type TopicOffsets struct {
	Topic      projections.TopicID `msgpack:"t" json:"topic"`
	Partitions []PartitionOffset   `msgpack:"p" json:"partitions"`
}

// PartitionOffset is an offset of one partition.
type PartitionOffset struct {
	Partition   int32  `msgpack:"p" json:"partition"`
	Offset      int64  `msgpack:"o" json:"offset"`
	LeaderEpoch int32  `msgpack:"e" json:"leaderEpoch"`
	Metadata    string `msgpack:"m,omitempty" json:"metadata,omitempty"`
	Expires     int64  `msgpack:"x" json:"expires"`
}

// OffsetsRemoved: some offsets of the group are gone: expired, deleted on request, or of a
// topic that is deleted.
type OffsetsRemoved struct {
	Group  string            `msgpack:"g" json:"group"`
	Topics []TopicPartitions `msgpack:"o" json:"topics"`
}

// TopicPartitions are some of a topic's partitions.
type TopicPartitions struct {
	Topic      projections.TopicID `msgpack:"t" json:"topic"`
	Partitions []int32             `msgpack:"p" json:"partitions"`
}

// GroupDeleted: the group is gone, with its offsets.
type GroupDeleted struct {
	Group string `msgpack:"g" json:"group"`
}

// TxnOffsetsStaged: a transaction of the producer will commit these, if it commits.
type TxnOffsetsStaged struct {
	Group    string         `msgpack:"g" json:"group"`
	Producer int64          `msgpack:"i" json:"producerId"`
	Epoch    int16          `msgpack:"e" json:"producerEpoch"`
	Time     int64          `msgpack:"t" json:"time"`
	Topics   []TopicOffsets `msgpack:"o" json:"topics"`
}

// TxnOffsetsEnded: what the producer staged in the group is committed, or dropped.
type TxnOffsetsEnded struct {
	Group     string `msgpack:"g" json:"group"`
	Producer  int64  `msgpack:"i" json:"producerId"`
	Committed bool   `msgpack:"c" json:"committed"`
	Time      int64  `msgpack:"t" json:"time"`
}

// ClassicGroupChanged: the group's membership under the classic protocol is this, as of the
// end of a rebalance. It ends a membership under the other.
type ClassicGroupChanged struct {
	Group string  `msgpack:"g" json:"group"`
	Time  int64   `msgpack:"t" json:"time"`
	State Classic `msgpack:"s" json:"state"`
}

// ConsumerGroupChanged: the group's epoch under the next-generation protocol has risen. It
// ends a membership under the classic one.
type ConsumerGroupChanged struct {
	Group      string `msgpack:"g" json:"group"`
	Time       int64  `msgpack:"t" json:"time"`
	Epoch      int32  `msgpack:"e" json:"epoch"`
	TopicsHash uint64 `msgpack:"h" json:"topicsHash"`
}

// ConsumerMemberChanged: a member joined, or any of what it says or has changed.
type ConsumerMemberChanged struct {
	Group  string         `msgpack:"g" json:"group"`
	Member ConsumerMember `msgpack:"m" json:"member"`
}

// ConsumerMemberLeft: a member is gone: it left, or was fenced.
type ConsumerMemberLeft struct {
	Group  string `msgpack:"g" json:"group"`
	Time   int64  `msgpack:"t" json:"time"`
	Member string `msgpack:"m" json:"member"`
}

// ConsumerTargetChanged: there is a target for an epoch. Changed holds the members whose
// target is another than before, an empty assignment included.
type ConsumerTargetChanged struct {
	Group    string                `msgpack:"g" json:"group"`
	Epoch    int32                 `msgpack:"e" json:"epoch"`
	Assignor string                `msgpack:"a" json:"assignor"`
	Changed  map[string]Assignment `msgpack:"c" json:"changed"`
}
