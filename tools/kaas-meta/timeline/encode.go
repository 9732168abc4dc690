package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// pageData is the JSON of the page. Numbers that are called strings are places in Strings;
// times are milliseconds after From.
type pageData struct {
	Cluster string     `json:"cluster"`
	From    int64      `json:"from"` // milliseconds since 1970
	To      int64      `json:"to"`
	Notes   []string   `json:"notes"`
	Names   []string   `json:"sections"`
	Strings []string   `json:"strings"`
	Entries []rowOf    `json:"entries"`
	Lanes   []laneData `json:"lanes"`
}

// rowOf is an entry:
//
//	[stream, position, previous, time, node, session, reason, status, closed, problem, untold,
//	 [type, text, …], [[object, field, before, after, …], …]]
//
// with all texts as strings, and the last two left out at the end where they are empty.
type rowOf []any

type laneData struct {
	Section int     `json:"s"`
	Name    int     `json:"n"`
	Parent  int     `json:"p"`
	Spans   []int64 `json:"spans"` // from, to, style, broker, label, entry; again
	Marks   [][]int `json:"marks"` // entry, kind, events …
}

// interner gives each text one place.
type interner struct {
	at  map[string]int
	all []string
}

func (in *interner) put(s string) int {
	n, ok := in.at[s]
	if !ok {
		n = len(in.all)
		in.at[s] = n
		in.all = append(in.all, visible(s))
	}
	return n
}

// visible writes what nobody can see, or what changes how text around it is seen, as its
// code.
func visible(s string) string {
	s = strings.ToValidUTF8(s, string(unicode.ReplacementChar))
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "\\u{%x}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }

// data returns the JSON. It has no "<", ">" or "&", so it can stand in a script element.
func (t *Timeline) data() ([]byte, error) {
	in := &interner{at: map[string]int{}}
	in.put("") // the place 0 is for nothing
	d := pageData{Cluster: visible(t.Cluster), From: t.From.UnixMilli(), To: t.To.UnixMilli(), Names: sectionNames, Notes: []string{}}
	for _, n := range t.Notes {
		d.Notes = append(d.Notes, visible(n))
	}
	for i := range t.Entries {
		d.Entries = append(d.Entries, t.Entries[i].row(in, d.From))
	}
	for i := range t.Lanes {
		d.Lanes = append(d.Lanes, t.Lanes[i].data(in, d.From))
	}
	d.Strings = in.all
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(true)
	err := e.Encode(d)
	return bytes.TrimSpace(b.Bytes()), err
}

func (e *Entry) row(in *interner, from int64) rowOf {
	closed := 0
	if e.Closed {
		closed = 1
	}
	row := rowOf{in.put(e.Stream), in.put(e.Position), in.put(e.Previous), e.Time.UnixMilli() - from, e.Node, in.put(e.Session),
		in.put(e.Reason), in.put(string(e.Status)), closed, in.put(e.Problem), e.Untold}
	if len(e.Events) == 0 && len(e.Changes) == 0 {
		return row
	}
	events := make([]int, 0, 2*len(e.Events))
	for _, ev := range e.Events {
		events = append(events, in.put(ev.Type), in.put(ev.Text))
	}
	row = append(row, events)
	if len(e.Changes) == 0 {
		return row
	}
	changes := make([][]int, len(e.Changes))
	for i, c := range e.Changes {
		changes[i] = append(changes[i], in.put(c.Object))
		for _, f := range c.Fields {
			changes[i] = append(changes[i], in.put(f.Name), in.put(f.Before), in.put(f.After))
		}
	}
	return append(row, changes)
}

func (l *Lane) data(in *interner, from int64) laneData {
	d := laneData{Section: int(l.Section), Name: in.put(l.Name), Parent: l.Parent, Spans: []int64{}, Marks: [][]int{}}
	for _, s := range l.Spans {
		d.Spans = append(d.Spans, s.From.UnixMilli()-from, s.To.UnixMilli()-from, int64(in.put(string(s.Style))), int64(s.Broker),
			int64(in.put(s.Label)), int64(s.Entry))
	}
	for _, m := range l.Marks {
		d.Marks = append(d.Marks, append([]int{m.Entry, in.put(string(m.Kind))}, m.Events...))
	}
	return d
}
