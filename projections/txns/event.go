package txns

import (
	"bytes"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/internal/facts"
)

// Fact is an event of a shard's stream, decoded. The types are in event_*.go.
type Fact interface {
	facts.Fact
	// apply changes the draft, or leaves it alone where the fact says nothing new.
	apply(d *draft)
}

// registry has every fact that this build understands. It is made before any init.
var registry = facts.NewRegistry[Fact](encode, func(b []byte, v any) error { return msgpack.Unmarshal(b, v) })

// register is called by the init of each event's file.
func register(make func() Fact) { registry.Register(make) }

// NewEvent encodes a fact, the same fact always to the same bytes.
func NewEvent(f Fact) (metalog.Event, error) { return registry.NewEvent(f) }

// NewEvents encodes facts in order.
func NewEvents(fs ...Fact) ([]metalog.Event, error) { return registry.NewEvents(fs) }

// Known reports whether this build understands the event.
func Known(ev metalog.Event) bool { return registry.Known(ev) }

// DecodeEvent returns the fact that an event holds, such as a *TxnChanged.
func DecodeEvent(ev metalog.Event) (Fact, error) { return registry.Decode(ev) }

// Describe says an event in one line.
func Describe(ev metalog.Event) (string, error) { return registry.Describe(ev) }

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	err := e.Encode(v)
	return b.Bytes(), err
}
