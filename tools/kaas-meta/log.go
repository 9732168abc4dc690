package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/tools/kaas-meta/history"
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
			s, err := history.Find(cmd.Context(), v, name)
			if err != nil {
				return err
			}
			return a.showLog(cmd.Context(), s)
		},
	}
	cmd.Flags().StringVar(&name, "stream", name, history.StreamsHelp)
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

func (a *app) showLog(ctx context.Context, s *history.Stream) error {
	var entries []logEntry
	bad := 0
	for r, err := range s.Records(ctx, history.Filter{}) {
		if err != nil {
			return err
		}
		entries = append(entries, newLogEntry(r))
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
		return fmt.Errorf("%d of %d entries could not be read; kaas-meta verify names them", bad, len(entries))
	}
	return nil
}

func newLogEntry(r history.Record) logEntry {
	e := logEntry{Position: r.Position.String(), Plug: r.Plug, Status: r.Status}
	if r.Err != nil {
		e.Error = r.Err.Error()
	}
	if r.Time.IsZero() {
		return e
	}
	e.Time, e.Session, e.Reason, e.Base, e.Closed = &r.Time, r.Session, r.Reason, r.Base, r.Closed
	if r.Session != "" {
		e.Node = &r.Node
	}
	if !r.Prev.IsZero() {
		e.Previous = r.Prev.String()
	}
	for _, ev := range r.Events {
		e.Events = append(e.Events, logEvent{Type: ev.Type, Data: ev.Data, Text: ev.Text})
	}
	return e
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
