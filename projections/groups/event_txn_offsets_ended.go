package groups

import "fmt"

// TxnOffsetsEnded says that what the producer staged in the group is committed, or dropped.
type TxnOffsetsEnded struct {
	Group     string `msgpack:"g" json:"group"`
	Producer  int64  `msgpack:"i" json:"producerId"`
	Committed bool   `msgpack:"c" json:"committed"`
	Time      int64  `msgpack:"t" json:"time"`
}

func init() { register(func() Fact { return new(TxnOffsetsEnded) }) }

// EventName implements Fact.
func (*TxnOffsetsEnded) EventName() string { return "TxnOffsetsEnded" }

func (e *TxnOffsetsEnded) String() string {
	how := "dropped"
	if e.Committed {
		how = "committed"
	}
	return fmt.Sprintf("offsets that producer %d staged in group %q %s", e.Producer, e.Group, how)
}

func (e *TxnOffsetsEnded) group() string { return e.Group }

func (e *TxnOffsetsEnded) apply(g *edit) {
	p, ok := g.Pending[e.Producer]
	if !ok {
		return
	}
	g.dropPending(e.Producer)
	if !e.Committed {
		return
	}
	for id, t := range p.Offsets {
		mine := g.topic(id, len(t))
		for partition, o := range t {
			o.Committed = e.Time // retention counts from when it was to be seen
			mine[partition] = o
		}
	}
}
