package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/kaas-meta/rebuild"
)

func (a *app) rebuildCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rebuild",
		Short: "Make lost metadata anew from the partitions, with all brokers stopped",
		Long: "Make the metadata of a volume anew from its partitions, where meta/ is lost, with all brokers stopped.\n" +
			"Every session is sealed first, so that a broker that runs all the same can acknowledge nothing any more.\n" +
			"Topics come back with their IDs, partitions, settings and leader epochs, and open transactions are aborted.\n" +
			"What cannot come back is listed. The volume has a new ID then.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := a.openLost()
			if err != nil {
				return err
			}
			opt, err := rebuildOptions(cmd)
			if err != nil {
				return err
			}
			opt.Force, _ = cmd.Flags().GetBool("force")
			opt.MakeMissing, _ = cmd.Flags().GetBool("make-missing")
			r, err := rebuild.Rebuild(cmd.Context(), v, opt)
			return a.rebuilt(r, err)
		},
	}
	cmd.Flags().Bool("dry-run", false, "only say what would be done")
	cmd.Flags().Bool("force", false, "leave behind metadata that can be read")
	cmd.Flags().Bool("make-missing", false, "make partitions anew, empty, whose directories are gone; else they are offline until the directories are back")
	marginFlag(cmd, 1)
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

// openLost opens a volume whose ID may be lost, too.
func (a *app) openLost() (*substrate.Volume, error) {
	v, err := a.open()
	if err == nil || a.dir == "" {
		return v, err
	}
	fs, ferr := substrate.OpenDir(a.dir)
	if ferr != nil {
		return nil, ferr
	}
	fs.Private()
	v = &substrate.Volume{FS: fs}
	es, ferr := v.ListFresh(".")
	for _, e := range es {
		if e.Name == "topics" && e.Dir {
			return v, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("%w, and there is no topics/", err), ferr)
}
