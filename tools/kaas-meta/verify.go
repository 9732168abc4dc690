package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	checker "kaas.dev/kaas/tools/kaas-meta/check"
)

var errFaults = errors.New("the volume has faults")

// settle is how long a check waits before it looks again; 0 is its own default.
var settle time.Duration

func (a *app) verifyCommand() *cobra.Command {
	deep, parallel := false, 0
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that the volume is sound, or tell what is not and what to do; with --deep every batch is read",
		Long: "Prove that the volume is sound, or tell what is not and what to do about it: every session,\n" +
			"claim, entry and chain, every manifest against the segments and indexes there are, and what\n" +
			"the cluster knows against what is there. Nothing is changed, and brokers may be running.\n" +
			"With --deep every batch of every segment is read and compared with its checksum.\n" +
			"Exit code 3 if there are faults; a note is something explained. See docs/verify.md.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.dir == "" {
				return usagef("--dir is not set: name the volume's directory")
			}
			if parallel < 1 {
				return usagef("--parallel %d: must be at least 1", parallel)
			}
			dir, err := substrate.OpenDir(a.dir)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.verify(ctx, &substrate.Volume{FS: dir}, checker.Options{Deep: deep, Parallel: parallel, Settle: settle})
		},
	}
	cmd.Flags().BoolVar(&deep, "deep", false, "read the segments too, and check every batch's checksum")
	cmd.Flags().IntVar(&parallel, "parallel", 16, "how many streams and partitions are read side by side")
	a.outputFlag(cmd, "table", "json", "yaml")
	return cmd
}

func (a *app) verify(ctx context.Context, v *substrate.Volume, opt checker.Options) error {
	bar := newProgress(os.Stderr)
	opt.Progress = bar.set
	r, err := checker.Run(ctx, v, opt)
	bar.end()
	if err != nil {
		return err
	}
	if a.output == "table" {
		a.verified(r)
	} else if err := a.print(r); err != nil {
		return err
	}
	if r.Faults > 0 {
		return fmt.Errorf("%w: %d found", errFaults, r.Faults)
	}
	return nil
}

// shownFindings is how many of a kind the table lists; JSON has all.
const shownFindings = 20

// verified is the table: what was looked at, then the findings by kind, each kind with
// what to do about it.
func (a *app) verified(r *checker.Report) {
	fmt.Fprintf(a.out, "volume %s: %d sessions (%d sealed), %d streams, %d entries, %d plugs\n",
		r.VolumeID, r.Sessions, r.Sealed, r.Streams, r.Entries, r.Plugs)
	fmt.Fprintf(a.out, "%d topics, %d partitions, %d segments, %d bytes of records; %d more bytes in their files, which do not exist\n",
		r.Topics, r.Partitions, r.Segments, r.Bytes, r.Unadmitted)
	if r.InProgress > 0 {
		fmt.Fprintf(a.out, "%d files are being made or removed by living brokers\n", r.InProgress)
	}
	for fs := r.Findings; len(fs) > 0; {
		n := 1
		for n < len(fs) && fs[n].Kind == fs[0].Kind && fs[n].Fault == fs[0].Fault {
			n++
		}
		a.findings(fs[:n], r.LeftOff[fs[0].Kind])
		fs = fs[n:]
	}
	switch {
	case r.Faults > 0:
	case r.Deep:
		fmt.Fprintln(a.out, "sound")
	default:
		fmt.Fprintln(a.out, "sound, as far as looked: what is in the segments is read with --deep")
	}
}

// findings shows those of one kind.
func (a *app) findings(fs []checker.Finding, leftOff int) {
	word := "note "
	if fs[0].Fault {
		word = "FAULT"
	}
	fmt.Fprintf(a.out, "%s %s: %s\n", word, fs[0].Kind, checker.Kinds[fs[0].Kind].What)
	for i, f := range fs {
		if i == shownFindings {
			fmt.Fprintf(a.out, "      … and %d more; -o json lists them\n", len(fs)-i+leftOff)
			break
		}
		fmt.Fprintf(a.out, "      %s: %s\n", f.File, f.Detail)
	}
	fmt.Fprintf(a.out, "      what to do: %s\n", fs[0].Advice)
}
