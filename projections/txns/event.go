package txns

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/metalog"
)

// Fact is an event of a shard's stream, decoded. The types are in event_*.go.
type Fact interface {
	// EventName is the type under which the event is stored.
	EventName() string
	// String is one readable line.
	String() string
	// apply changes the draft, or leaves it alone where the fact says nothing new.
	apply(d draft)
}

// facts makes an empty fact of each name that this build understands.
var facts = map[string]func() Fact{}

// register is called by the init of each event's file.
func register(make func() Fact) { facts[make().EventName()] = make }

// NewEvent encodes a fact, the same fact always to the same bytes.
func NewEvent(f Fact) (metalog.Event, error) {
	data, err := encode(f)
	if err != nil {
		return metalog.Event{}, fmt.Errorf("encode event %s: %w", f.EventName(), err)
	}
	return metalog.Event{Type: f.EventName(), Data: data}, nil
}

// NewEvents encodes facts in order.
func NewEvents(fs ...Fact) ([]metalog.Event, error) {
	out := make([]metalog.Event, 0, len(fs))
	for _, f := range fs {
		ev, err := NewEvent(f)
		if err != nil {
			return nil, err
		}
		out = append(out, ev)
	}
	return out, nil
}

// Known reports whether this build understands the event.
func Known(ev metalog.Event) bool { return facts[ev.Type] != nil }

// DecodeEvent returns the fact that an event holds, such as a *TxnChanged.
func DecodeEvent(ev metalog.Event) (Fact, error) {
	make := facts[ev.Type]
	if make == nil {
		return nil, fmt.Errorf("event %q is not known to this build", ev.Type)
	}
	f := make()
	if err := msgpack.Unmarshal(ev.Data, f); err != nil {
		return nil, fmt.Errorf("event %s: %w", ev.Type, err)
	}
	return f, nil
}

// Describe says an event in one line.
func Describe(ev metalog.Event) (string, error) {
	f, err := DecodeEvent(ev)
	if err != nil {
		return "", err
	}
	return f.String(), nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := msgpack.NewEncoder(&b)
	e.UseCompactInts(true)
	err := e.Encode(v)
	return b.Bytes(), err
}
