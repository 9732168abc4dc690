package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// logEntry is a record in JSON and YAML.
type logEntry struct {
	Position string         `json:"position"`
	Status   metalog.Status `json:"status,omitempty"`
	Time     *time.Time     `json:"time,omitempty"`
	Node     *int32         `json:"node,omitempty"` // absent for a stream's birth
	Session  string         `json:"session,omitempty"`
	Reason   string         `json:"reason,omitempty"`
	Previous string         `json:"previous,omitempty"`
	Base     bool           `json:"base,omitempty"`
	Closed   bool           `json:"closed,omitempty"`
	Plug     bool           `json:"plug,omitempty"`
	Events   []logEvent     `json:"events,omitempty"`
	Error    string         `json:"error,omitempty"`
}

type logEvent struct {
	Type string `json:"type"`
	Text string `json:"text"`
	Data any    `json:"data,omitempty"`
}

func newLogEntry(r history.Record, secrets bool) logEntry {
	e := logEntry{Position: r.Position.String(), Status: r.Status, Session: r.Session, Reason: r.Reason, Base: r.Base, Closed: r.Closed, Plug: r.Plug}
	if r.Err != nil {
		e.Error = r.Err.Error()
	}
	if !r.Time.IsZero() {
		e.Time = &r.Time
	}
	if r.Node >= 0 {
		e.Node = &r.Node
	}
	if !r.Prev.IsZero() {
		e.Previous = r.Prev.String()
	}
	for _, ev := range r.Events {
		if secrets {
			ev.Data = revealed(ev.Data)
		}
		e.Events = append(e.Events, logEvent{ev.Type, ev.Text, ev.Data})
	}
	return e
}

const logTime = "2006-01-02T15:04:05.000Z"

// recordLines are a record in lines: position, time, writer, reason and first event in the
// first, each further event in one of its own.
func recordLines(sc screen, r history.Record) []string {
	head, style := recordHead(r)
	texts := []string{""}
	if len(r.Events) > 0 {
		texts = texts[:0]
		for _, ev := range r.Events {
			texts = append(texts, ev.Text)
		}
	}
	var out []string
	for _, t := range texts {
		line := strings.TrimRight(head+t, " ")
		if sc.width > 0 {
			line = cut(line, sc.width)
		}
		out = append(out, sc.paintHead(style, line, len(r.Position.String())))
		head = strings.Repeat(" ", utf8.RuneCountInString(head))
	}
	return out
}

// paintHead paints the position, or all of a line that is out of the ordinary.
func (s screen) paintHead(st style, line string, n int) string {
	if st != plain || len(line) < n || line[0] == ' ' {
		return s.paint(st, line)
	}
	return s.paint(yellow, line[:n]) + line[n:]
}

func recordHead(r history.Record) (string, style) {
	pos := r.Position.String()
	switch {
	case r.Err != nil:
		return fmt.Sprintf("%-8s  UNREADABLE: %v", pos, r.Err), red
	case r.Plug:
		return fmt.Sprintf("%-8s  plug: the position was closed to its epoch's owner", pos), dim
	case r.Status == history.StatusTaken:
		return fmt.Sprintf("%-8s  epoch %d was taken over by %s, nothing published yet  [session %s]", pos, r.Position.Epoch, writer(r), r.Session), cyan
	}
	var marks []string
	style := plain
	if r.Closed {
		marks = append(marks, "closed")
	}
	switch r.Status {
	case metalog.StatusDisowned:
		style = red
	case metalog.StatusUndecided:
		style = cyan
	}
	if style != plain {
		marks = append(marks, strings.ToUpper(string(r.Status)))
	}
	mark := ""
	if len(marks) > 0 {
		mark = "[" + strings.Join(marks, ", ") + "]  "
	}
	return fmt.Sprintf("%-8s  %s  %-7s  %q  %s", pos, r.Time.UTC().Format(logTime), writer(r), r.Reason, mark), style
}

func writer(r history.Record) string {
	switch {
	case r.Node >= 0:
		return fmt.Sprintf("node %d", r.Node)
	case r.Session == "":
		return "birth"
	}
	return "session " + r.Session
}
