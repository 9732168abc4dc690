package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// builder gathers what the streams tell.
type builder struct {
	opt   Options
	out   *Timeline
	names map[string]string // of all topics there have been, by ID
	lanes map[laneKey]*laneDraft
}

// laneDraft is a lane that may have an open span.
type laneDraft struct {
	Lane
	open bool // the last span goes on
}

func newBuilder(opt Options) *builder {
	return &builder{opt: opt, out: &Timeline{}, names: map[string]string{}, lanes: map[laneKey]*laneDraft{}}
}

func (b *builder) note(format string, args ...any) {
	b.out.Notes = append(b.out.Notes, fmt.Sprintf(format, args...))
}

func (b *builder) add(e Entry) int {
	b.out.Entries = append(b.out.Entries, e)
	return len(b.out.Entries) - 1
}

func (b *builder) lane(k laneKey) *laneDraft {
	l := b.lanes[k]
	if l == nil {
		l = &laneDraft{Lane: Lane{Section: k.section, Name: k.label(), Parent: -1}}
		b.lanes[k] = l
	}
	return l
}

// set says what a lane is from a time on; nil that there is nothing. entry is -1 where it
// was so before.
func (b *builder) set(k laneKey, at time.Time, entry int, s *Span) {
	if s == nil && b.lanes[k] == nil {
		return
	}
	l := b.lane(k)
	if l.open {
		last := &l.Spans[len(l.Spans)-1]
		if s != nil && last.Style == s.Style && last.Broker == s.Broker && last.Label == s.Label {
			return
		}
		last.To, l.open = later(at, last.From), false // a clock may be behind its predecessor's
		at = last.To
	}
	if s != nil {
		span := *s
		span.From, span.Entry = at, entry
		l.Spans, l.open = append(l.Spans, span), true
	}
}

// mark says that an event of an entry, or the entry itself with -1, is about a lane.
func (b *builder) mark(k laneKey, entry int, kind Kind, event int) {
	l := b.lane(k)
	if n := len(l.Marks); n == 0 || l.Marks[n-1].Entry != entry {
		l.Marks = append(l.Marks, Mark{Entry: entry, Kind: kind})
	}
	m := &l.Marks[len(l.Marks)-1]
	if event >= 0 && !slices.Contains(m.Events, event) {
		m.Events = append(m.Events, event)
	}
}

// finish puts all in order.
func (b *builder) finish() *Timeline {
	t := b.out
	b.bounds()
	place := b.sortEntries()
	keys := make([]laneKey, 0, len(b.lanes))
	for k := range b.lanes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, laneKey.compare)
	topics := map[string]int{}
	for _, k := range keys {
		l := b.lanes[k]
		l.settle(t.To, place)
		if k.section == SectionTopics {
			if k.part < 0 {
				topics[k.name] = len(t.Lanes)
			} else if p, ok := topics[k.name]; ok {
				l.Parent = p
			}
		}
		t.Lanes = append(t.Lanes, l.Lane)
	}
	return t
}

// settle ends the open span, and goes over to the entries' places.
func (l *laneDraft) settle(end time.Time, place []int) {
	for i := range l.Spans {
		if e := l.Spans[i].Entry; e >= 0 {
			l.Spans[i].Entry = place[e]
		}
	}
	if l.open {
		last := &l.Spans[len(l.Spans)-1]
		last.To = later(end, last.From)
	}
	for i := range l.Marks {
		l.Marks[i].Entry = place[l.Marks[i].Entry]
	}
	slices.SortStableFunc(l.Marks, func(a, b Mark) int { return cmp.Compare(a.Entry, b.Entry) })
}

// bounds takes the times of the entries where none were asked for.
func (b *builder) bounds() {
	t := b.out
	t.From, t.To = b.opt.Since, b.opt.Until
	for i := range t.Entries {
		at := t.Entries[i].Time
		if b.opt.Since.IsZero() && (t.From.IsZero() || at.Before(t.From)) {
			t.From = at
		}
		if b.opt.Until.IsZero() && at.After(t.To) {
			t.To = at
		}
	}
	if t.From.IsZero() {
		t.From = t.To
	}
	t.To = later(t.To, t.From)
}

// sortEntries returns where each entry has gone. They came by stream, and in each by
// position; clocks may disagree with that order, which only decides where the same time
// stands.
func (b *builder) sortEntries() []int {
	es := b.out.Entries
	order := make([]int, len(es))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int { return es[x].Time.Compare(es[y].Time) })
	place, sorted := make([]int, len(es)), make([]Entry, len(es))
	for to, from := range order {
		place[from], sorted[to] = to, es[from]
	}
	b.out.Entries = sorted
	return place
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
