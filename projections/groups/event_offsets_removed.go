package groups

import "fmt"

// OffsetsRemoved says that some offsets of the group are gone: expired, deleted on request,
// or of a topic that is deleted. What is staged for the partitions is not touched. A group
// that never had members goes with its last offset, unless a transaction is open.
type OffsetsRemoved struct {
	Group  string            `msgpack:"g" json:"group"`
	Topics []TopicPartitions `msgpack:"o" json:"topics"`
}

func init() { register(func() Fact { return new(OffsetsRemoved) }) }

// EventName implements Fact.
func (*OffsetsRemoved) EventName() string { return "OffsetsRemoved" }

func (e *OffsetsRemoved) String() string {
	return fmt.Sprintf("group %q lost its offsets of %s", e.Group, sayPartitions(e.Topics))
}

func (e *OffsetsRemoved) group() string { return e.Group }

func (e *OffsetsRemoved) apply(g *edit) {
	for _, t := range e.Topics {
		for _, p := range t.Partitions {
			g.dropOffset(t.Topic, p)
		}
	}
}
