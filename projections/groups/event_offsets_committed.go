package groups

import "fmt"

// OffsetsCommitted says that the group's offsets of some partitions are these from now on.
// It makes the group if there is none. What open transactions staged for the partitions
// before is overruled.
type OffsetsCommitted struct {
	Group  string         `msgpack:"g" json:"group"`
	Time   int64          `msgpack:"t" json:"time"` // milliseconds since 1970
	Topics []TopicOffsets `msgpack:"o" json:"topics"`
}

func init() { register(func() Fact { return new(OffsetsCommitted) }) }

// EventName implements Fact.
func (*OffsetsCommitted) EventName() string { return "OffsetsCommitted" }

func (e *OffsetsCommitted) String() string {
	return fmt.Sprintf("group %q committed %s", e.Group, sayOffsets(e.Topics))
}

func (e *OffsetsCommitted) group() string { return e.Group }

func (e *OffsetsCommitted) apply(g *edit) {
	for _, t := range e.Topics {
		for _, p := range t.Partitions {
			if p.Partition < 0 || t.Topic.IsZero() {
				continue
			}
			o := p.at(e.Time)
			g.topic(t.Topic, len(t.Partitions))[p.Partition] = o
			g.overrule(t.Topic, p.Partition, o)
		}
	}
	g.empty(e.Time)
}
