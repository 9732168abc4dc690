package groups

import (
	"fmt"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/projections"
)

// TopicOffsets are offsets of one topic's partitions. On the volume they are packed: the
// topic's ID and one to a few bytes for each number.
type TopicOffsets struct {
	Topic      projections.TopicID `json:"topic"`
	Partitions []PartitionOffset   `json:"partitions"`
}

// PartitionOffset is an offset of one partition.
type PartitionOffset struct {
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leaderEpoch"`
	Metadata    string `json:"metadata,omitempty"`
	Expires     int64  `json:"expires"`
}

// at is the offset as committed at a time.
func (p PartitionOffset) at(time int64) Offset {
	return Offset{Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: p.Metadata, Committed: time, Expires: p.Expires}
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (t TopicOffsets) EncodeMsgpack(e *msgpack.Encoder) error {
	p := packer{b: make([]byte, 0, 24+10*len(t.Partitions))}
	p.id(t.Topic)
	flags := byte(0)
	for _, o := range t.Partitions {
		flags |= flagsFor(o.Metadata, o.Expires)
	}
	p.offsets(len(t.Partitions), flags)
	for _, o := range t.Partitions {
		p.offset(o.Partition, o.at(0))
	}
	return e.EncodeBytes(p.b)
}

// DecodeMsgpack reads what EncodeMsgpack wrote.
func (t *TopicOffsets) DecodeMsgpack(d *msgpack.Decoder) error {
	b, err := d.DecodeBytes()
	if err != nil {
		return err
	}
	u := unpacker{b: b}
	t.Topic = u.id()
	t.Partitions = make([]PartitionOffset, u.offsets())
	for i := range t.Partitions {
		n, o := u.offset()
		t.Partitions[i] = PartitionOffset{n, o.Offset, o.LeaderEpoch, o.Metadata, o.Expires}
	}
	return u.end()
}

// TopicPartitions are some of a topic's partitions, packed likewise.
type TopicPartitions struct {
	Topic      projections.TopicID `json:"topic"`
	Partitions []int32             `json:"partitions"`
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (t TopicPartitions) EncodeMsgpack(e *msgpack.Encoder) error {
	var p packer
	p.id(t.Topic)
	p.partitions(t.Partitions)
	return e.EncodeBytes(p.b)
}

// DecodeMsgpack reads what EncodeMsgpack wrote.
func (t *TopicPartitions) DecodeMsgpack(d *msgpack.Decoder) error {
	b, err := d.DecodeBytes()
	if err != nil {
		return err
	}
	u := unpacker{b: b}
	t.Topic, t.Partitions = u.id(), u.partitions()
	return u.end()
}

// count is the number of partitions.
func count(ts []TopicOffsets) (n int) {
	for _, t := range ts {
		n += len(t.Partitions)
	}
	return n
}

// mostSaid is how many partitions a line names.
const mostSaid = 10

// sayOffsets names partitions with their offsets, a few of many.
func sayOffsets(ts []TopicOffsets) string {
	return say(count(ts), func(yield func(string)) {
		for _, t := range ts {
			for _, p := range t.Partitions {
				yield(fmt.Sprintf(" %s/%d=%d", t.Topic, p.Partition, p.Offset))
			}
		}
	})
}

// sayPartitions names partitions, a few of many.
func sayPartitions(ts []TopicPartitions) string {
	n := 0
	for _, t := range ts {
		n += len(t.Partitions)
	}
	return say(n, func(yield func(string)) {
		for _, t := range ts {
			for _, p := range t.Partitions {
				yield(fmt.Sprintf(" %s/%d", t.Topic, p))
			}
		}
	})
}

func say(n int, each func(yield func(string))) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d partition(s)", n)
	sep, said := ":", 0
	each(func(s string) {
		if said++; said <= mostSaid {
			b.WriteString(sep + s)
			sep = ","
		}
	})
	if n > mostSaid {
		b.WriteString(", …")
	}
	return b.String()
}
