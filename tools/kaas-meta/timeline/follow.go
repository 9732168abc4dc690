package timeline

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// mostRows is how many rows the changes of one entry may have. The page stays readable
// when an entry gives away ten thousand partitions.
const mostRows = 400

// step is a record of a stream with the state before and after it, as in history.State.
type step struct {
	history.Record
	before, after any
	changes       []history.Change
}

// follower goes along a stream.
type follower struct {
	b      *builder
	stream string
	lane   laneKey // of the stream itself
	kind   Kind    // of an event that is about nothing else
	begun  bool    // there was a step
	state  any     // that the lanes show
	last   time.Time
	// waiting have no time, and there was none before them either.
	waiting []step
}

func (b *builder) follow(stream string, lane laneKey) *follower {
	f := &follower{b: b, stream: stream, lane: lane, kind: KindChange, last: b.opt.Since}
	if lane.section == SectionTopics {
		f.kind = KindSegment
	}
	return f
}

// step takes the next one in.
func (f *follower) step(st step) {
	if st.Time.IsZero() && f.last.IsZero() {
		f.waiting = append(f.waiting, st)
		return
	}
	if !st.Time.IsZero() {
		f.last = st.Time
	}
	for _, w := range f.waiting {
		f.show(w)
	}
	f.waiting = nil
	f.show(st)
}

// end tells of what never had a time.
func (f *follower) end() {
	if len(f.waiting) > 0 {
		f.b.note("%s: none of its %d entries can be read", f.stream, len(f.waiting))
	}
}

func (f *follower) show(st step) {
	at := f.last
	if !f.begun || st.before != f.state { // the history begins here, or begins again after a gap
		since := at
		if !f.begun && !f.b.opt.Since.IsZero() {
			since = f.b.opt.Since
		}
		f.b.refresh(f.state, st.before, since, -1)
	}
	f.begun, f.state = true, st.after
	e := f.entry(st, at)
	if len(st.Events) == 0 || st.Err != nil {
		f.b.mark(f.lane, e, kindOfEntry(st), -1)
	}
	counts := st.Status != metalog.StatusDisowned
	for i, ev := range st.Events {
		touches, all := touchesOf(f.b, st.before, ev.Data)
		if all || len(touches) == 0 {
			touches = append(touches, touch{lane: f.lane, kind: f.kind})
		}
		for _, t := range touches {
			if !counts {
				t.kind = KindTrouble
			}
			f.b.mark(t.lane, e, t.kind, i)
			if counts && t.span != nil {
				f.b.set(t.lane, at, e, t.span(st.after))
			}
		}
		if all && counts {
			f.b.refresh(st.before, st.after, at, e)
		}
	}
}

// refresh sets all lanes of two states to what the second says.
func (b *builder) refresh(before, after any, at time.Time, entry int) {
	for _, t := range append(everything(before), everything(after)...) {
		if t.span != nil {
			b.set(t.lane, at, entry, t.span(after))
		}
	}
}

func kindOfEntry(st step) Kind {
	if st.Err != nil || st.Status == metalog.StatusDisowned {
		return KindTrouble
	}
	return KindStream
}

// entry adds what the page tells of a step.
func (f *follower) entry(st step, at time.Time) int {
	e := Entry{Stream: f.stream, Position: st.Position.String(), Time: at, Node: st.Node, Session: st.Session, Reason: st.Reason,
		Status: st.Status, Closed: st.Closed, Problem: problem(st)}
	if st.Status == history.StatusTaken {
		e.Position = fmt.Sprintf("epoch %d", st.Position.Epoch)
	}
	if !st.Prev.IsZero() {
		e.Previous = st.Prev.String()
	}
	for _, ev := range st.Events {
		e.Events = append(e.Events, Event{ev.Type, f.b.named(ev)})
	}
	f.b.changes(&e, st.changes)
	return f.b.add(e)
}

func problem(st step) string {
	switch {
	case st.Err != nil:
		return "unreadable: " + st.Err.Error()
	case st.Plug:
		return "a plug: the position was closed to its epoch's owner"
	case st.Status == metalog.StatusDisowned:
		return "disowned: its writer was fenced, and the successor continued from before it"
	case st.Status == metalog.StatusUndecided:
		return "undecided: its writer was fenced, and nothing that can be read continues from it"
	case st.Status == history.StatusTaken:
		return "the stream is taken over, and nothing is published yet"
	}
	return ""
}

// changes puts in as many as an entry may have.
func (b *builder) changes(e *Entry, cs []history.Change) {
	rows := 0
	for _, c := range cs {
		n := min(len(c.Fields), mostRows-rows)
		e.Untold += len(c.Fields) - n
		if n == 0 {
			continue
		}
		rows += n
		out := Change{Object: strings.TrimSpace(words(c.Kind) + " " + b.withNames(c.Name))}
		for _, f := range c.Fields[:n] {
			out.Fields = append(out.Fields, Field{fieldName(c.Kind, f.Name), b.value(f.Name, f.Old), b.value(f.Name, f.New)})
		}
		e.Changes = append(e.Changes, out)
	}
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// fieldName is readable, but for keys of a configuration, which are what they are.
func fieldName(kind, name string) string {
	if kind == history.KindConfig {
		return name
	}
	return words(name)
}

// value is never empty where there is one.
func (b *builder) value(field string, v any) string {
	switch {
	case v == nil:
		return ""
	case v == projections.NoLeader && (field == "leader" || field == "owner" || field == "controller"):
		return "nobody"
	}
	s := b.withNames(fmt.Sprint(v))
	if s == "" {
		return `""`
	}
	return s
}

var topicIDs = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// withNames puts names of topics in the place of IDs.
func (b *builder) withNames(s string) string {
	return topicIDs.ReplaceAllStringFunc(s, func(id string) string {
		if name, ok := b.names[id]; ok {
			return name
		}
		return id
	})
}

// named is the line of an event. One that tells a name beside the ID keeps both.
func (b *builder) named(ev history.Event) string {
	if ev.Subject.TopicName != "" {
		return ev.Text
	}
	return b.withNames(ev.Text)
}
