package groups

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/projections"
)

// Assignment are partitions by topic, each list ascending. On the volume it is packed.
type Assignment map[projections.TopicID][]int32

// Targets are the assignments that members are to have, by member ID.
type Targets map[string]Assignment

// Len is the number of partitions.
func (a Assignment) Len() (n int) {
	for _, ps := range a {
		n += len(ps)
	}
	return n
}

// normal is the assignment with ascending lists and without empty ones; nil for none.
func (a Assignment) normal() Assignment {
	for id, ps := range a {
		if len(ps) == 0 {
			delete(a, id)
		} else if !ascending(ps) {
			slices.Sort(ps)
			a[id] = slices.Compact(ps)
		}
	}
	if len(a) == 0 {
		return nil
	}
	return a
}

func ascending(ps []int32) bool {
	for i := 1; i < len(ps); i++ {
		if ps[i-1] >= ps[i] {
			return false
		}
	}
	return true
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (a Assignment) EncodeMsgpack(e *msgpack.Encoder) error {
	var p packer
	p.assignment(a)
	return e.EncodeBytes(p.b)
}

// DecodeMsgpack reads what EncodeMsgpack wrote.
func (a *Assignment) DecodeMsgpack(d *msgpack.Decoder) error {
	b, err := d.DecodeBytes()
	if err != nil {
		return err
	}
	u := unpacker{b: b}
	*a = u.assignment()
	return u.end()
}

// EncodeMsgpack writes member, assignment, member, assignment, … by member.
func (t Targets) EncodeMsgpack(e *msgpack.Encoder) error {
	if err := e.EncodeArrayLen(2 * len(t)); err != nil {
		return err
	}
	for _, m := range slices.Sorted(maps.Keys(t)) {
		if err := e.EncodeString(m); err != nil {
			return err
		}
		if err := t[m].EncodeMsgpack(e); err != nil {
			return err
		}
	}
	return nil
}

// DecodeMsgpack reads what EncodeMsgpack wrote.
func (t *Targets) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n < 0 || n%2 != 0 {
		return fmt.Errorf("%d values are not a member and an assignment each", n)
	}
	*t = Targets{}
	for range n / 2 {
		m, err := d.DecodeString()
		if err != nil {
			return err
		}
		var a Assignment
		if err := a.DecodeMsgpack(d); err != nil {
			return err
		}
		(*t)[m] = a
	}
	return nil
}
