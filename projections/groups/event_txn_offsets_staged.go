package groups

import "fmt"

// TxnOffsetsStaged says that a transaction of the producer will commit these, if it
// commits (KIP-98). It makes the group if there is none.
type TxnOffsetsStaged struct {
	Group    string `msgpack:"g" json:"group"`
	Producer int64  `msgpack:"i" json:"producerId"`
	Epoch    int16  `msgpack:"e" json:"producerEpoch"`
	// First says that the producer had nothing staged in the group: it drops what is.
	// Stage sets it, so that a history tells where a transaction began.
	First  bool           `msgpack:"f,omitempty" json:"first,omitempty"`
	Time   int64          `msgpack:"t" json:"time"`
	Topics []TopicOffsets `msgpack:"o" json:"topics"`
}

func init() { register(func() Fact { return new(TxnOffsetsStaged) }) }

// Stage returns the fact that a producer stages offsets in a group, as it is now; nil if
// there is none.
func Stage(g *Group, id string, producer int64, epoch int16, time int64, topics []TopicOffsets) *TxnOffsetsStaged {
	open := false
	if g != nil {
		_, open = g.Pending[producer]
	}
	return &TxnOffsetsStaged{Group: id, Producer: producer, Epoch: epoch, First: !open, Time: time, Topics: topics}
}

// EventName implements Fact.
func (*TxnOffsetsStaged) EventName() string { return "TxnOffsetsStaged" }

func (e *TxnOffsetsStaged) String() string {
	return fmt.Sprintf("producer %d epoch %d staged in group %q %s", e.Producer, e.Epoch, e.Group, sayOffsets(e.Topics))
}

func (e *TxnOffsetsStaged) group() string { return e.Group }

func (e *TxnOffsetsStaged) apply(g *edit) {
	g.ownPending()
	p := g.Pending[e.Producer]
	if e.First || p.Offsets == nil {
		p.Offsets = Offsets{}
	}
	p.Epoch = e.Epoch
	for _, t := range e.Topics {
		for _, o := range t.Partitions {
			if o.Partition >= 0 && !t.Topic.IsZero() {
				p.Offsets.put(t.Topic, o.Partition, o.at(e.Time))
			}
		}
	}
	g.Pending[e.Producer] = p
	if len(p.Offsets) == 0 {
		g.dropPending(e.Producer)
	}
	g.empty(e.Time)
}
