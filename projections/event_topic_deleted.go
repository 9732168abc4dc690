package projections

import "fmt"

// TopicDeleted says that a topic exists no more. Its directory is removed later;
// until TopicRemoved the view keeps its ID among those to remove.
type TopicDeleted struct {
	ID   TopicID `msgpack:"id" json:"id"`
	Name string  `msgpack:"name" json:"name"` // for people
}

func init() { register(func() Fact { return new(TopicDeleted) }) }

// EventName implements Fact.
func (*TopicDeleted) EventName() string { return "TopicDeleted" }

func (e *TopicDeleted) String() string { return fmt.Sprintf("topic %s deleted, ID %s", e.Name, e.ID) }

func (e *TopicDeleted) apply(d *draft) {
	t := d.topics[e.ID]
	if t == nil {
		return
	}
	d.dropTopic(t)
	d.ownRemoving()
	d.removing[t.ID] = t.Name
}
