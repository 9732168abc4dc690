package groups

import (
	"bytes"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections/internal/facts"
)

// Fact is an event of a shard's stream, decoded. The types are in event_*.go.
type Fact interface {
	facts.Fact
	// group is the ID of the group that it is about, if it is about one.
	group() string
	// apply changes that group, which is void if the view does not have it, or leaves it
	// alone where the fact says nothing new.
	apply(g *edit)
}

// registry has every fact that this build understands. It is made before any init.
var registry = facts.NewRegistry[Fact](encode, unmarshal)

// register is called by the init of each event's file.
func register(make func() Fact) { registry.Register(make) }

// NewEvent encodes a fact, the same fact always to the same bytes.
func NewEvent(f Fact) (metalog.Event, error) { return registry.NewEvent(f) }

// NewEvents encodes facts in order.
func NewEvents(fs ...Fact) ([]metalog.Event, error) { return registry.NewEvents(fs) }

// Known reports whether this build understands the event.
func Known(ev metalog.Event) bool { return registry.Known(ev) }

// DecodeEvent returns the fact that an event holds, such as an *OffsetsCommitted.
func DecodeEvent(ev metalog.Event) (Fact, error) { return registry.Decode(ev) }

// Describe says an event in one line.
func Describe(ev metalog.Event) (string, error) { return registry.Describe(ev) }

var encoders = sync.Pool{New: func() any {
	e := msgpack.NewEncoder(nil)
	e.UseCompactInts(true)
	return e
}}

// encode writes maps of facts in the order of their fields; the types here that are maps
// themselves sort their keys.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := encoders.Get().(*msgpack.Encoder)
	defer encoders.Put(e)
	e.ResetWriter(&b)
	err := e.Encode(v)
	return b.Bytes(), err
}
