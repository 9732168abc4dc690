package projections

import "fmt"

// TopicRemoved says that nothing of a deleted topic is on the volume any more.
type TopicRemoved struct {
	ID   TopicID `msgpack:"id" json:"id"`
	Name string  `msgpack:"name" json:"name"` // for people
}

func init() { register(func() Fact { return new(TopicRemoved) }) }

// EventName implements Fact.
func (*TopicRemoved) EventName() string { return "TopicRemoved" }

func (e *TopicRemoved) String() string {
	return fmt.Sprintf("files of deleted topic %s removed, ID %s", e.Name, e.ID)
}

func (e *TopicRemoved) apply(d *draft) {
	if _, ok := d.removing[e.ID]; ok {
		d.ownRemoving()
		delete(d.removing, e.ID)
	}
}
