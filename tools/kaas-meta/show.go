package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

// life is a thing in JSON and YAML.
type life struct {
	Kind    string           `json:"kind"`
	Name    string           `json:"name"`
	At      []placeAt        `json:"at"`
	Objects []history.Object `json:"objects"`
	History []moment         `json:"history,omitempty"`
}

type placeAt struct {
	Stream   string `json:"stream"`
	Position string `json:"position"`
}

// moment is when the thing changed.
type moment struct {
	Stream   string           `json:"stream"`
	Position string           `json:"position"`
	Status   string           `json:"status"`
	Time     time.Time        `json:"time"`
	Node     *int32           `json:"node,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Changes  []history.Change `json:"changes"`
	record   history.Record
}

func (a *app) showCommand() *cobra.Command {
	at, withHistory := history.Latest, false
	cmd := &cobra.Command{
		Use:   "show KIND NAME",
		Short: "One thing: a " + strings.Join(history.Kinds, ", a ") + "; with --history its life",
		Long: "One thing as it is at a moment, and with --history all that is retained of what became of it.\n" +
			"KIND NAME is one of: topic NAME, partition TOPIC/NUMBER, broker ID, group GROUP, txn TRANSACTIONAL-ID,\n" +
			"producer ID, shard groups/NN or txns/NN, user NAME. It need not be there any more.",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(history.Kinds, args[0]) {
				return usagef("KIND %q: must be one of %v", args[0], history.Kinds)
			}
			v, err := a.open()
			if err != nil {
				return err
			}
			l, err := lifeOf(cmd.Context(), v, args[0], args[1], at, withHistory)
			if err != nil {
				return err
			}
			if a.output != "table" {
				return a.print(l)
			}
			return a.showLife(l)
		},
	}
	cmd.Flags().StringVar(&at, "at", at, atHelp)
	cmd.Flags().BoolVar(&withHistory, "history", false, "all that is retained of its changes")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func lifeOf(ctx context.Context, v *substrate.Volume, kind, name, at string, withHistory bool) (life, error) {
	l := life{Kind: kind, Name: name, Objects: []history.Object{}}
	places, err := history.Places(ctx, v, kind, name)
	if err != nil {
		return l, err
	}
	if _, err := substrate.ParsePosition(at); err == nil && len(places) > 1 {
		return l, usagef("--at: a %s is kept in more than one stream: name a time", kind)
	}
	for _, p := range places {
		st, err := stateAt(ctx, p.Stream, at)
		if err != nil {
			return l, err
		}
		l.At = append(l.At, placeAt{p.Stream.Name, positionName(st)})
		l.Objects = append(l.Objects, p.Objects(st)...)
		if !withHistory {
			continue
		}
		ms, err := moments(ctx, p)
		if err != nil {
			return l, err
		}
		l.History = append(l.History, ms...)
	}
	slices.SortStableFunc(l.History, func(a, b moment) int {
		if a.Stream == b.Stream {
			return 0 // in the stream's order, whatever its clocks say
		}
		return cmp.Compare(a.Time.UnixMilli(), b.Time.UnixMilli())
	})
	if len(l.Objects)+len(l.History) == 0 {
		return l, fmt.Errorf("there is no %s %q at %s", kind, name, at)
	}
	return l, nil
}

func moments(ctx context.Context, p history.Place) (out []moment, err error) {
	for st, err := range p.Stream.Steps(ctx, p.Filter) {
		if err != nil {
			return nil, err
		}
		if st.Err != nil {
			return nil, st.Err
		}
		changes := p.Changes(st)
		if len(changes) == 0 {
			continue
		}
		m := moment{Stream: p.Stream.Name, Position: st.Position.String(), Status: string(st.Status), Time: st.Time, Reason: st.Reason, Changes: changes, record: st.Record}
		if st.Node >= 0 {
			m.Node = &st.Node
		}
		out = append(out, m)
	}
	return out, nil
}

func (a *app) showLife(l life) error {
	var at []string
	for _, p := range l.At {
		at = append(at, p.Position+" of "+p.Stream)
	}
	if len(at) > 3 {
		at = append(at[:2], fmt.Sprintf("%d streams more", len(at)-2))
	}
	fmt.Fprintf(a.out, "%s %s at %s\n", l.Kind, shown(l.Name), strings.Join(at, ", "))
	if len(l.Objects) == 0 {
		fmt.Fprintln(a.out, "not there")
	} else if err := objectRows(a.out, a.screen, l.Objects); err != nil {
		return err
	}
	for i, m := range l.History {
		if i == 0 {
			fmt.Fprintln(a.out, "\n"+a.screen.paint(bold, "history"))
		}
		head, style := recordHead(m.record)
		head = strings.TrimRight(head, " ")
		if len(l.At) > 1 {
			head = fmt.Sprintf("%-10s  %s", m.Stream, head)
		}
		fmt.Fprintln(a.out, a.screen.paint(style, head))
		for _, c := range m.Changes {
			fmt.Fprintln(a.out, "  "+a.screen.changeLine(c))
		}
	}
	return nil
}
