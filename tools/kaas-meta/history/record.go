package history

import (
	"context"
	"errors"
	"iter"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// StatusTaken is the status of a record that is no entry: the epoch has an owner, who has
// published nothing yet. It follows the newest entry.
const StatusTaken metalog.Status = "taken over"

// Record is an entry of a stream, or what stands for one.
type Record struct {
	Stream   *Stream
	Position substrate.Position // of sequence 0 for StatusTaken
	Status   metalog.Status     // empty for a plug
	Plug     bool
	Err      error // the file cannot be read; nothing but Position and Status is known

	Time    time.Time
	Node    int32  // -1 for a stream's birth
	Session string // empty for a stream's birth
	Reason  string
	Prev    substrate.Position
	Base    bool
	Closed  bool
	Events  []Event

	entry *metalog.Entry
}

// Event is an event with what this build makes of it.
type Event struct {
	Type    string
	Text    string // one line
	Data    any    // decoded; nil where the build does not know the type
	Err     error  // likewise
	Subject Subject
}

// Filter chooses records. What is zero chooses all.
type Filter struct {
	Since, Until time.Time // by the clocks of the writers; both included
	From, To     substrate.Position
	Types        []string // of events
	Topic        string   // name or ID
	Group        string
	Broker       *int32 // that an event is about, or that wrote the entry
	Producer     *int64
	Txn          string // transactional ID
	User         string
}

// bySubject reports a filter that chooses by what is in an entry.
func (f *Filter) bySubject() bool {
	return len(f.Types) > 0 || f.Topic != "" || f.Group != "" || f.Broker != nil || f.Producer != nil || f.Txn != "" || f.User != ""
}

// Records goes through the stream's retained entries, oldest first, disowned ones and plugs
// too, and at the end what has taken the stream over. An error is not of one entry and ends
// it. A filter by what is in an entry leaves out plugs, and never what cannot be read.
func (s *Stream) Records(ctx context.Context, f Filter) iter.Seq2[Record, error] {
	return indexed(ctx, s, func(x *metalog.Index) iter.Seq2[Record, error] { return s.RecordsIn(ctx, x, f) })
}

// indexed is what goes by the stream's index.
func indexed[T any](ctx context.Context, s *Stream, in func(*metalog.Index) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		x, err := s.Index(ctx)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		in(x)(yield)
	}
}

// RecordsIn is Records by an index that is made.
func (s *Stream) RecordsIn(ctx context.Context, x *metalog.Index, f Filter) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		from, to, err := window(ctx, x, f)
		if err != nil {
			yield(Record{}, err)
			return
		}
		pick, err := s.picker(ctx, x, f, from)
		if err != nil {
			yield(Record{}, err)
			return
		}
		for r, err := range s.records(ctx, x, from, to, newSayer(s)) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			if pick.wants(r) && !yield(r, nil) {
				return
			}
		}
		if to < x.Len() || f.bySubject() {
			return
		}
		for _, t := range x.Taken {
			if !yield(s.taken(t), nil) {
				return
			}
		}
	}
}

// window is which files of the index a filter may choose.
func window(ctx context.Context, x *metalog.Index, f Filter) (from, to int, err error) {
	from, to = 0, x.Len()
	if !f.Since.IsZero() {
		if from, err = x.After(ctx, f.Since.Add(-time.Millisecond)); err != nil {
			return from, to, err
		}
	}
	if !f.Until.IsZero() {
		if to, err = x.After(ctx, f.Until); err != nil {
			return from, to, err
		}
	}
	if !f.From.IsZero() {
		i, _ := x.Find(f.From)
		from = max(from, i)
	}
	if !f.To.IsZero() {
		i, there := x.Find(f.To)
		if there {
			i++
		}
		to = min(to, i)
	}
	return from, max(from, to), nil
}

// records reads files of the index.
func (s *Stream) records(ctx context.Context, x *metalog.Index, from, to int, say *sayer) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for r, err := range x.Records(ctx, from, to) {
			if err != nil {
				yield(Record{}, err)
				return
			}
			rec := s.record(r)
			for i := range rec.Events {
				say.event(&rec.Events[i])
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

func (s *Stream) record(r metalog.Record) Record {
	out := Record{Stream: s, Position: r.Pos, Status: r.Status, Plug: r.Plug, Err: r.Err, Node: -1, entry: r.Entry}
	e := r.Entry
	if e == nil {
		return out
	}
	out.Time, out.Session, out.Reason, out.Prev, out.Base, out.Closed = e.Time, e.Session, e.Reason, e.Prev, e.Base, e.Closed
	if e.Session != "" {
		out.Node = e.Node
	}
	for _, ev := range e.Events {
		out.Events = append(out.Events, s.event(ev))
	}
	return out
}

func (s *Stream) event(ev metalog.Event) Event {
	out := Event{Type: ev.Type}
	var err1, err2 error
	out.Text, err1 = s.describe(ev)
	out.Data, err2 = s.decode(ev)
	if out.Err = errors.Join(err1, err2); out.Err != nil {
		out.Text, out.Data, out.Subject.All = ev.Type+" (unknown to this build)", nil, true
		return out
	}
	out.Subject = subjectOf(out.Data)
	return out
}

// taken is the record of a claim. Its session tells the broker, if it can be read.
func (s *Stream) taken(t metalog.Takeover) Record {
	r := Record{Stream: s, Position: substrate.Position{Epoch: t.Epoch}, Status: StatusTaken, Session: t.Session, Node: -1, Reason: "nothing published yet"}
	if id, ok := sessionIdentity(s.v, t.Session); ok {
		r.Node = id.NodeID
	}
	return r
}

// sessionIdentity reads who a session is of. Its token is at one of two names.
func sessionIdentity(v *substrate.Volume, session string) (id substrate.Identity, ok bool) {
	es, err := v.ListFresh(substrate.SessionPath(session))
	if err != nil {
		return id, false
	}
	for _, e := range es {
		if e.Dir || e.Name != "0" && e.Name != "1" {
			continue
		}
		name := substrate.SessionPath(session) + "/" + e.Name
		b, err := v.ReadFile(name)
		if err != nil {
			return id, false
		}
		_, err = substrate.DecodeFile(name, substrate.KindSession, b, &id)
		return id, err == nil
	}
	return id, false
}
