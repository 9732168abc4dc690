package projections

import (
	"fmt"
	"time"
)

// TopicCreated says that a topic exists. Its directory was complete before. Its
// partitions have no leader until PartitionLeaderChanged names one.
type TopicCreated struct {
	ID         TopicID           `msgpack:"id" json:"id"`
	Name       string            `msgpack:"name" json:"name"`
	Partitions int32             `msgpack:"partitions" json:"partitions"`
	Configs    map[string]string `msgpack:"configs,omitempty" json:"configs,omitempty"`
	CreatedAt  int64             `msgpack:"created_ms" json:"created_ms"` // ms since 1970
}

func init() { register(func() Fact { return new(TopicCreated) }) }

// EventName implements Fact.
func (*TopicCreated) EventName() string { return "TopicCreated" }

func (e *TopicCreated) String() string {
	return fmt.Sprintf("topic %s created with %d partition(s), ID %s%s", e.Name, e.Partitions, e.ID, settings(e.Configs, nil))
}

func (e *TopicCreated) apply(d *draft) {
	_, removing := d.removing[e.ID]
	switch {
	case e.ID.IsZero(), removing, d.topics[e.ID] != nil, d.names[e.Name] != nil:
		return // known, deleted since, or in the way of a living topic
	case e.Partitions < 1, e.Partitions > MaxPartitions, ValidateTopicName(e.Name) != nil:
		return
	}
	t := &Topic{ID: e.ID, Name: e.Name, Configs: edited(e.Configs, nil, nil), CreatedAt: time.UnixMilli(e.CreatedAt).UTC()}
	t.grow(e.Partitions)
	d.addTopic(t)
}
