package projections

import "fmt"

// PartitionsAdded says that a topic has that many partitions now. It carries the
// new total, not the difference, so that hearing it twice changes nothing.
type PartitionsAdded struct {
	TopicID    TopicID `msgpack:"topic_id" json:"topic_id"`
	Topic      string  `msgpack:"topic" json:"topic"` // for people
	Partitions int32   `msgpack:"partitions" json:"partitions"`
}

func init() { register(func() Fact { return new(PartitionsAdded) }) }

// EventName implements Fact.
func (*PartitionsAdded) EventName() string { return "PartitionsAdded" }

func (e *PartitionsAdded) String() string {
	return fmt.Sprintf("topic %s grew to %d partition(s)", e.Topic, e.Partitions)
}

func (e *PartitionsAdded) apply(d *draft) {
	t := d.topics[e.TopicID]
	if t == nil || e.Partitions <= int32(len(t.Partitions)) || e.Partitions > MaxPartitions {
		return
	}
	d.editTopic(e.TopicID).grow(e.Partitions)
}
