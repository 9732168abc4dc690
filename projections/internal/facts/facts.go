// Package facts is what the events of all streams have in common: each is a struct that is
// stored under its name, one msgpack value, and is registered so that it can be read again.
package facts

import (
	"fmt"

	"kaas.dev/kaas/metalog"
)

// Fact is an event of a stream, decoded.
type Fact interface {
	// EventName is the type under which the event is stored.
	EventName() string
	// String is one readable line.
	String() string
}

// Registry holds the facts of one kind of stream.
type Registry[F Fact] struct {
	make   map[string]func() F
	encode func(any) ([]byte, error)
	decode func([]byte, any) error
}

// NewRegistry returns an empty one whose facts are written by encode, the same fact always
// to the same bytes, and read by decode.
func NewRegistry[F Fact](encode func(any) ([]byte, error), decode func([]byte, any) error) *Registry[F] {
	return &Registry[F]{make: map[string]func() F{}, encode: encode, decode: decode}
}

// Register is called by the init of each fact's file, with what makes an empty one.
func (r *Registry[F]) Register(make func() F) { r.make[make().EventName()] = make }

// All are what makes an empty fact of each name.
func (r *Registry[F]) All() map[string]func() F { return r.make }

// NewEvents encodes facts in order.
func (r *Registry[F]) NewEvents(fs []F) ([]metalog.Event, error) {
	out := make([]metalog.Event, 0, len(fs))
	for _, f := range fs {
		data, err := r.encode(f)
		if err != nil {
			return nil, fmt.Errorf("encode event %s: %w", f.EventName(), err)
		}
		out = append(out, metalog.Event{Type: f.EventName(), Data: data})
	}
	return out, nil
}

// NewEvent encodes one.
func (r *Registry[F]) NewEvent(f F) (metalog.Event, error) {
	evs, err := r.NewEvents([]F{f})
	if err != nil {
		return metalog.Event{}, err
	}
	return evs[0], nil
}

// Known reports whether this build understands the event.
func (r *Registry[F]) Known(ev metalog.Event) bool { return r.make[ev.Type] != nil }

// Decode returns the fact that an event holds.
func (r *Registry[F]) Decode(ev metalog.Event) (f F, err error) {
	make := r.make[ev.Type]
	if make == nil {
		return f, fmt.Errorf("event %q is not known to this build", ev.Type)
	}
	f = make()
	if err := r.decode(ev.Data, f); err != nil {
		return f, fmt.Errorf("event %s: %w", ev.Type, err)
	}
	return f, nil
}

// Describe says an event in one line.
func (r *Registry[F]) Describe(ev metalog.Event) (string, error) {
	f, err := r.Decode(ev)
	if err != nil {
		return "", err
	}
	return f.String(), nil
}

// Each goes through the facts of a batch of events. An event of an unknown type is left out;
// one whose bytes do not decode is an error.
func (r *Registry[F]) Each(evs []metalog.Event, apply func(F)) error {
	for i, ev := range evs {
		if !r.Known(ev) {
			continue
		}
		f, err := r.Decode(ev)
		if err != nil {
			return fmt.Errorf("event %d of %d: %w", i+1, len(evs), err)
		}
		apply(f)
	}
	return nil
}
