package metalog

import (
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
)

// Event is one past-tense fact. Data, one msgpack value, is opaque here; the schema's
// Apply reads it.
type Event struct {
	Type string `msgpack:"t" json:"type"`
	Data []byte `msgpack:"d" json:"-"`
}

// NewEvent encodes v as the data of an event.
func NewEvent(typ string, v any) (Event, error) {
	data, err := msgpack.Marshal(v)
	if err != nil {
		return Event{}, fmt.Errorf("encode event %s: %w", typ, err)
	}
	return Event{Type: typ, Data: data}, nil
}

// eventBytes is what events take in an entry, but for a few bytes each.
func eventBytes(evs []Event) (n int) {
	for _, ev := range evs {
		n += len(ev.Type) + len(ev.Data)
	}
	return n
}

// Entry is one file of a stream.
type Entry struct {
	Pos     substrate.Position
	Prev    substrate.Position // zero only for a stream's birth
	PrevSum uint32             // Sum of the entry at Prev
	Session string             // the writer's session; empty for a stream's birth
	Node    int32              // the writer's node ID, for people
	Time    time.Time          // wall clock of the writer, for people and for retention
	Reason  string
	Events  []Event
	Base    bool   // State is there
	Closed  bool   // the epoch's owner writes nothing after this
	State   []byte // msgpack of the state after Events, for a base
	Sum     uint32 // CRC32C of the whole file
	Size    int    // bytes of the file
}

type entryBody struct {
	Stream  string             `msgpack:"stream"`
	Pos     substrate.Position `msgpack:"pos"`
	Prev    substrate.Position `msgpack:"prev"`
	PrevSum uint32             `msgpack:"prev_sum"`
	Session string             `msgpack:"session"`
	Node    int32              `msgpack:"node"`
	Time    int64              `msgpack:"time_ms"`
	Reason  string             `msgpack:"reason"`
	Events  []Event            `msgpack:"events"`
	State   []byte             `msgpack:"state,omitempty"`
}

// encode returns the file's bytes and sets Sum and Size.
func (e *Entry) encode(stream string) ([]byte, error) {
	var flags uint16
	if e.Base {
		flags |= substrate.FlagBase
	}
	if e.Closed {
		flags |= substrate.FlagClosed
	}
	b, err := substrate.EncodeFile(substrate.KindEntry, flags, entryBody{
		Stream: stream, Pos: e.Pos, Prev: e.Prev, PrevSum: e.PrevSum, Session: e.Session, Node: e.Node,
		Time: e.Time.UnixMilli(), Reason: e.Reason, Events: e.Events, State: e.State,
	})
	if err != nil {
		return nil, err
	}
	if len(b) > substrate.MaxFrame {
		return nil, fmt.Errorf("entry %s of %s: %d bytes is more than %d", e.Pos, stream, len(b), substrate.MaxFrame)
	}
	e.Sum, e.Size = substrate.CRC32C(b), len(b)
	return b, nil
}

// DecodeEntry decodes the bytes of the entry file at p, or returns a
// *substrate.DamageError. Nothing of a damaged entry is returned.
func DecodeEntry(stream string, p substrate.Position, b []byte) (*Entry, error) {
	file := substrate.EntryPath(stream, p)
	var body entryBody
	flags, err := substrate.DecodeFile(file, substrate.KindEntry, b, &body)
	if err != nil {
		return nil, err
	}
	bad := func(format string, a ...any) (*Entry, error) {
		return nil, &substrate.DamageError{File: file, Offset: substrate.FrameHeader, Cause: fmt.Sprintf(format, a...)}
	}
	base := flags&substrate.FlagBase != 0
	switch {
	case flags&^(substrate.FlagBase|substrate.FlagClosed) != 0:
		return nil, &substrate.DamageError{File: file, Offset: 10, Cause: fmt.Sprintf("unknown flags %#x", flags)}
	case body.Stream != stream:
		return bad("belongs to stream %q", body.Stream)
	case body.Pos != p:
		return bad("holds position %s", body.Pos)
	case base != (len(body.State) > 0):
		return bad("base flag is %v but the state has %d bytes", base, len(body.State))
	case p.Seq == 1 && !base:
		return bad("the first entry of an epoch is not a base")
	case p.Seq > 1 && body.Prev != substrate.Position{Epoch: p.Epoch, Seq: p.Seq - 1}:
		return bad("follows %s", body.Prev)
	case p.Seq == 1 && p.Epoch > 0 && !body.Prev.Less(p):
		return bad("continues from %s, which is not before it", body.Prev)
	}
	return &Entry{
		Pos: body.Pos, Prev: body.Prev, PrevSum: body.PrevSum, Session: body.Session, Node: body.Node,
		Time: time.UnixMilli(body.Time).UTC(), Reason: body.Reason, Events: body.Events, Base: base,
		Closed: flags&substrate.FlagClosed != 0, State: body.State, Sum: substrate.CRC32C(b), Size: len(b),
	}, nil
}

// ReadEntry reads the entry at p. plug reports an empty file, which is no entry.
func ReadEntry(v *substrate.Volume, stream string, p substrate.Position) (e *Entry, plug bool, err error) {
	b, err := v.ReadFile(substrate.EntryPath(stream, p))
	if err != nil {
		return nil, false, err
	}
	if len(b) == 0 {
		return nil, true, nil
	}
	e, err = DecodeEntry(stream, p, b)
	return e, false, err
}
