package main

import (
	"github.com/spf13/cobra"

	"kaas.dev/kaas/tools/kaas-meta/history"
)

func (a *app) dumpCommand() *cobra.Command {
	name, at := "cluster", history.Latest
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "The state of a stream, folded up to a position or a time",
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
			st, err := stateAt(cmd.Context(), v, s, at)
			if err != nil {
				return err
			}
			return a.print(dumped{s.Name, st.Position.String(), shownState(cmd.Context(), v, st)})
		},
	}
	cmd.Flags().StringVar(&name, "stream", name, history.StreamsHelp)
	cmd.Flags().StringVar(&at, "at", at, atHelp)
	a.outputFlag(cmd, "yaml", "json")
	return cmd
}

// dumped is a state in JSON and YAML.
type dumped struct {
	Stream   string `json:"stream"`
	Position string `json:"position"`
	State    any    `json:"state"`
}
