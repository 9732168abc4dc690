package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/metalog"
)

func (a *app) logCommand() *cobra.Command {
	name := "cluster"
	cmd := &cobra.Command{
		Use:   "log",
		Short: "The history of a stream, oldest first: what changed, when, by whom and why",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.open()
			if err != nil {
				return err
			}
			s, err := find(cmd.Context(), v, name)
			if err != nil {
				return err
			}
			var rs []metalog.Record
			if !s.absent {
				if rs, err = metalog.History(v, s.path); err != nil {
					return err
				}
			}
			return a.showLog(s, rs)
		},
	}
	cmd.Flags().StringVar(&name, "stream", name, streamsHelp)
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

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
	Data any    `json:"data,omitempty"`
	Text string `json:"-"`
}

func (a *app) showLog(s *stream, rs []metalog.Record) error {
	entries := make([]logEntry, len(rs))
	bad := 0
	for i, r := range rs {
		entries[i] = newLogEntry(s, r)
		if r.Err != nil {
			bad++
		}
	}
	if a.output == "table" {
		for _, e := range entries {
			fmt.Fprintln(a.out, e.line())
		}
	} else if err := a.print(entries); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d entries could not be read; kaas-meta verify names them", bad, len(rs))
	}
	return nil
}

func newLogEntry(s *stream, r metalog.Record) logEntry {
	e := logEntry{Position: r.Pos.String(), Plug: r.Plug, Status: r.Status}
	if r.Err != nil {
		e.Error = r.Err.Error()
	}
	if r.Entry == nil {
		return e
	}
	e.Time, e.Session, e.Reason, e.Base, e.Closed = &r.Entry.Time, r.Entry.Session, r.Entry.Reason, r.Entry.Base, r.Entry.Closed
	if r.Entry.Session != "" {
		e.Node = &r.Entry.Node
	}
	if !r.Entry.Prev.IsZero() {
		e.Previous = r.Entry.Prev.String()
	}
	for _, ev := range r.Entry.Events {
		e.Events = append(e.Events, newLogEvent(s, ev))
	}
	return e
}

func newLogEvent(s *stream, ev metalog.Event) logEvent {
	out := logEvent{Type: ev.Type}
	var err1, err2 error
	out.Text, err1 = s.describe(ev)
	out.Data, err2 = s.decode(ev)
	if err := errors.Join(err1, err2); err != nil {
		out.Text, out.Data = ev.Type+" (unknown to this build)", err.Error()
	}
	return out
}

// line is the entry in one line: position, time, writer, reason, events.
func (e logEntry) line() string {
	switch {
	case e.Error != "":
		return fmt.Sprintf("%-8s  UNREADABLE: %s", e.Position, e.Error)
	case e.Plug:
		return fmt.Sprintf("%-8s  plug: the position was closed to its epoch's owner", e.Position)
	}
	writer := "birth"
	if e.Node != nil {
		writer = fmt.Sprintf("node %d", *e.Node)
	}
	var marks []string
	if e.Closed {
		marks = append(marks, "closed")
	}
	if e.Status != metalog.StatusCommitted {
		marks = append(marks, strings.ToUpper(string(e.Status)))
	}
	mark := ""
	if len(marks) > 0 {
		mark = "  [" + strings.Join(marks, ", ") + "]"
	}
	texts := make([]string, len(e.Events))
	for i, ev := range e.Events {
		texts[i] = ev.Text
	}
	return fmt.Sprintf("%-8s  %s  %-7s  %q%s  %s", e.Position, e.Time.Format("2006-01-02T15:04:05.000Z"), writer, e.Reason, mark, strings.Join(texts, "; "))
}
