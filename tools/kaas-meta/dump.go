package main

import (
	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
)

func (a *app) dumpCommand() *cobra.Command {
	name, at := "cluster", "latest"
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "The state of a stream, folded up to a position",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := position(at)
			if err != nil {
				return err
			}
			v, err := a.open()
			if err != nil {
				return err
			}
			s, err := find(cmd.Context(), v, name)
			if err != nil {
				return err
			}
			pos, state, err := s.state(cmd.Context(), p)
			if err != nil {
				return err
			}
			return a.print(struct {
				Stream   string `json:"stream"`
				Position string `json:"position"`
				State    any    `json:"state"`
			}{s.label, pos.String(), state})
		},
	}
	cmd.Flags().StringVar(&name, "stream", name, streamsHelp)
	cmd.Flags().StringVar(&at, "at", at, "a position that log shows, such as 6-43, or latest")
	a.outputFlag(cmd, "yaml", "json")
	return cmd
}

// position reads --at; latest is zero.
func position(at string) (substrate.Position, error) {
	if at == "latest" {
		return substrate.Position{}, nil
	}
	return substrate.ParsePosition(at)
}
