package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"kaas.dev/kaas/tools/kaas-meta/rebuild"
)

// rolledBackFlag is the flag of restore that has rolledBack do it.
const rolledBackFlag = "volume-rolled-back"

// rolledBackFlags adds to restore what rolledBack takes.
func rolledBackFlags(cmd *cobra.Command) {
	cmd.Flags().Bool(rolledBackFlag, false, "with all brokers stopped: the volume came back from a storage snapshot, and has forgotten what was done since")
	marginFlag(cmd, 16)
}

func marginFlag(cmd *cobra.Command, def int32) {
	cmd.Flags().Int32("epoch-margin", def, "by how much the partitions' leader epochs go up: more than any partition changed its leader since the snapshot; "+
		"each step leaves a directory behind for each partition")
}

// rolledBack is restore --volume-rolled-back.
func rolledBack(cmd *cobra.Command, a *app) error {
	for _, other := range []string{"at", "streams", "group", "topic", "prune"} {
		if f := cmd.Flags().Lookup(other); f != nil && f.Changed {
			return usagef("--%s and --%s do not go together: the volume is restored whole", rolledBackFlag, other)
		}
	}
	if cmd.Flags().NArg() > 0 {
		return usagef("--%s takes no file: the volume is the backup", rolledBackFlag)
	}
	v, err := a.open()
	if err != nil {
		return err
	}
	opt, err := rebuildOptions(cmd)
	if err != nil {
		return err
	}
	r, err := rebuild.RolledBack(cmd.Context(), v, opt)
	return a.rebuilt(r, err)
}

func rebuildOptions(cmd *cobra.Command) (opt rebuild.Options, err error) {
	if opt.EpochMargin, err = cmd.Flags().GetInt32("epoch-margin"); err != nil {
		return opt, err
	}
	if opt.EpochMargin < 1 || opt.EpochMargin > 10_000 {
		return opt, usagef("--epoch-margin %d: must be from 1 to 10000", opt.EpochMargin)
	}
	if cmd.Flags().Lookup("dry-run") != nil {
		opt.DryRun, err = cmd.Flags().GetBool("dry-run")
	}
	opt.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if isatty.IsTerminal(os.Stderr.Fd()) {
		opt.Progress = showStep
	}
	return opt, err
}

// showStep keeps a line of a terminal.
func showStep(what string, n, all int) {
	end := ""
	if n == all {
		end = "\n"
	}
	fmt.Fprintf(os.Stderr, "\r%s: %d of %d%s", what, n, all, end)
}

// rebuilt prints a report, and says what is to be done.
func (a *app) rebuilt(r *rebuild.Report, err error) error {
	if r == nil || err != nil && r.NewID == "" {
		return err
	}
	if a.output != "table" {
		return errors.Join(a.print(r), err)
	}
	verb := "restored"
	if r.DryRun {
		verb = "would be restored"
	}
	a.say("%d topics with %d partitions, %d groups and %d transactional IDs %s", len(r.Topics), r.Partitions, r.Groups, r.Txns, verb)
	a.say("sealed: %d sessions that nobody had sealed. A broker that runs all the same can acknowledge nothing any more", r.Sealed)
	a.say("leader epochs raised by %d; producer IDs go on at %d; %d open transactions aborted", r.EpochMargin, r.ProducerIDs, r.Aborted)
	for _, s := range r.Lost {
		a.say("does not come back: %s", s)
	}
	for _, s := range r.Notes {
		a.say("note: %s", s)
	}
	if r.NewID != "" {
		a.say("the volume's ID is %s now; it was %s. Where cluster.id is set, set it to this, then start the brokers", r.NewID, orNone(r.OldID))
	}
	return err
}

func orNone(s string) string {
	if s == "" {
		return "lost"
	}
	return s
}

func (a *app) say(format string, args ...any) { fmt.Fprintf(a.out, format+"\n", args...) }
