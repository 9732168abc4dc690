package projections

import (
	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/projections/internal/facts"
)

// Restored says that the view is this one from here on, whatever it was. [Restore] makes
// it, so that nothing of what only rises falls by it.
type Restored facts.Restored

func init() { register(func() Fact { return new(Restored) }) }

// EventName implements Fact.
func (*Restored) EventName() string { return "Restored" }

func (e *Restored) String() string { return "cluster " + (*facts.Restored)(e).String() }

// DecodeMsgpack takes only a state that is whole.
func (e *Restored) DecodeMsgpack(d *msgpack.Decoder) error {
	if err := d.Decode((*facts.Restored)(e)); err != nil {
		return err
	}
	_, err := Decode(e.State)
	return err
}

func (e *Restored) apply(d *draft) {
	if c, err := Decode(e.State); err == nil {
		*d = *newDraft(c)
	}
}
