package txns

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/projections"
)

// Partition is a partition of a topic by identity.
type Partition struct {
	Topic projections.TopicID `json:"topic"`
	Index int32               `json:"partition"`
}

// Compare orders partitions by topic ID and index.
func (p Partition) Compare(q Partition) int {
	if c := bytes.Compare(p.Topic[:], q.Topic[:]); c != 0 {
		return c
	}
	return cmp.Compare(p.Index, q.Index)
}

// Partitions are partitions in order, each once. On the volume they are a list in which each
// topic's ID is followed by the list of its indexes.
type Partitions []Partition

func (ps Partitions) sorted() bool {
	for i, p := range ps {
		if p.Topic.IsZero() || p.Index < 0 || i > 0 && p.Compare(ps[i-1]) <= 0 {
			return false
		}
	}
	return true
}

// byTopic calls f with the run of each topic.
func (ps Partitions) byTopic(f func(Partitions) error) error {
	for len(ps) > 0 {
		n := 1
		for n < len(ps) && ps[n].Topic == ps[0].Topic {
			n++
		}
		if err := f(ps[:n]); err != nil {
			return err
		}
		ps = ps[n:]
	}
	return nil
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (ps Partitions) EncodeMsgpack(e *msgpack.Encoder) error {
	topics := 0
	_ = ps.byTopic(func(Partitions) error { topics++; return nil })
	if err := e.EncodeArrayLen(2 * topics); err != nil {
		return err
	}
	return ps.byTopic(func(run Partitions) error {
		if err := e.Encode(run[0].Topic); err != nil {
			return err
		}
		if err := e.EncodeArrayLen(len(run)); err != nil {
			return err
		}
		for _, p := range run {
			if err := e.EncodeInt(int64(p.Index)); err != nil {
				return err
			}
		}
		return nil
	})
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (ps *Partitions) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n > 0 && n%2 != 0 {
		return errors.New("partitions without a topic, or a topic without partitions")
	}
	*ps = nil
	for ; n > 0; n -= 2 {
		if err := ps.decodeTopic(d); err != nil {
			return err
		}
	}
	return nil
}

func (ps *Partitions) decodeTopic(d *msgpack.Decoder) error {
	var p Partition
	if err := p.Topic.DecodeMsgpack(d); err != nil {
		return err
	}
	n, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	for range n {
		if p.Index, err = d.DecodeInt32(); err != nil {
			return err
		}
		*ps = append(*ps, p)
	}
	return nil
}
