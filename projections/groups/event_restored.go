package groups

import (
	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/projections/internal/facts"
)

// Restored says that the shard is this one from here on, whatever it was. [Restore] makes
// it.
type Restored facts.Restored

func init() { register(func() Fact { return new(Restored) }) }

// EventName implements Fact.
func (*Restored) EventName() string { return "Restored" }

func (e *Restored) String() string { return "shard of groups " + (*facts.Restored)(e).String() }

// DecodeMsgpack takes only a state that is whole.
func (e *Restored) DecodeMsgpack(d *msgpack.Decoder) error {
	if err := d.Decode((*facts.Restored)(e)); err != nil {
		return err
	}
	_, err := Decode(e.State)
	return err
}

// It is about all groups.
func (e *Restored) group() string { return "" }

func (e *Restored) apply(*edit) {}

// restore drops what the draft was of.
func (d *draft) restore(e *Restored) {
	if s, err := Decode(e.State); err == nil {
		*d = *newDraft(s)
	}
}
