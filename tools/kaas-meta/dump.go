package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/tools/kaas-meta/history"
)

func (a *app) dumpCommand() *cobra.Command {
	name, at := "cluster", history.Latest
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "The state of a stream, folded up to a position or a time",
		Long: "The state of a stream, folded up to a position or a time. With --bootstrap-server it is what the brokers tell of the\n" +
			"cluster now: brokers, controller, topics, and configurations.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.bootstrap != "" {
				return a.dumpLive(cmd)
			}
			v, err := a.open()
			if err != nil {
				return err
			}
			s, err := history.Find(cmd.Context(), v, name)
			if err != nil {
				return err
			}
			x, err := s.Index(cmd.Context())
			if err != nil {
				return err
			}
			st, err := s.StateIn(cmd.Context(), x, time.Now(), at)
			if err != nil {
				return err
			}
			if a.output == "table" {
				return a.showObjects(st)
			}
			d := dumped{Stream: s.Name, Position: positionName(st), State: shownState(cmd.Context(), v, st, a.secrets)}
			d.fate(x, st)
			return a.print(d)
		},
	}
	cmd.Flags().StringVar(&name, "stream", name, history.StreamsHelp)
	cmd.Flags().StringVar(&at, "at", at, atHelp)
	a.bootstrapFlag(cmd)
	a.secretsFlag(cmd)
	a.outputFlag(cmd, "yaml", "json", "table")
	return cmd
}

// dumped is a state in JSON and YAML.
type dumped struct {
	Stream   string       `json:"stream"`
	Position string       `json:"position,omitempty"`
	Status   string       `json:"status,omitempty"`     // of the entry at the position
	Taken    []takenEpoch `json:"taken_over,omitempty"` // claims above the newest entry
	State    any          `json:"state"`
}

// takenEpoch is an epoch that has an owner, who has published nothing yet.
type takenEpoch struct {
	Epoch   int32  `json:"epoch"`
	Session string `json:"session"`
}

// fate says what became of the entry that is shown.
func (d *dumped) fate(x *metalog.Index, st history.State) {
	if !st.Position.IsZero() {
		d.Status = string(x.Status(st.Position))
	}
	for _, t := range x.Taken {
		d.Taken = append(d.Taken, takenEpoch{int32(t.Epoch), t.Session})
	}
}

func (a *app) showObjects(st history.State) error {
	return objectRows(a.out, a.screen, st.Objects())
}

func objectRows(w io.Writer, sc screen, all []history.Object) error {
	lines := [][]string{{"KIND", "NAME", "VALUES"}}
	for _, o := range all {
		lines = append(lines, []string{o.Kind, shown(o.Name), objectText(o)})
	}
	return rows(w, sc, lines...)
}

func objectText(o history.Object) string {
	c := history.Change{Action: history.Added}
	for _, f := range o.Fields {
		c.Fields = append(c.Fields, history.FieldChange{Name: f.Name, New: f.Value})
	}
	return fieldsText(c)
}
