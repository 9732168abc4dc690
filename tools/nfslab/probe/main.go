// Command probe runs on the hosts of nfslab for the tests: it uses the volume through
// internal/substrate and metalog and prints what happened to it as lines of JSON. The
// directory it is started in is the volume.
//
//	probe prepare --kind dir --who NAME --n N                                   makes the directories of races
//	probe race --kind dir|file --who NAME --n N --start UNIXNANO --every D      races for names
//	probe look --kind dir|file --who NAME --n N                                 sees who has won
//	probe session --every D              opens a session, prints its ID, and Checks until it is fenced
//	probe seal ID
//	probe replace --who RUN --n N [--every D]     replaces a file again and again
//	probe reopen … --every D             reopens it until it has seen the N-th
//	probe held                           removes a file that it has open
//	probe publish --who RUN --n N        publishes to a stream
//	probe follow … --every D             follows it until it has seen N events
//
// Times are Unix nanoseconds of the host's clock.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
)

func main() {
	if err := command().ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

// plan is what a run is told.
type plan struct {
	kind, who string
	n         int
	start     int64
	every     time.Duration
	args      []string
}

func command() *cobra.Command {
	root := &cobra.Command{Use: "probe", Short: "Use the volume on a host of nfslab", SilenceUsage: true, SilenceErrors: true}
	for name, do := range map[string]func(context.Context, *substrate.Volume, plan) error{
		"prepare": prepare, "race": race, "look": look, "session": session, "seal": seal, "replace": replace, "reopen": reopen,
		"held": held, "publish": publish, "follow": follow,
	} {
		var p plan
		cmd := &cobra.Command{Use: name, RunE: func(cmd *cobra.Command, args []string) error {
			fs, err := substrate.OpenDir(".")
			if err != nil {
				return err
			}
			p.args = args
			return do(cmd.Context(), &substrate.Volume{FS: fs}, p)
		}}
		cmd.Flags().StringVar(&p.kind, "kind", "", "")
		cmd.Flags().StringVar(&p.who, "who", "", "")
		cmd.Flags().IntVar(&p.n, "n", 0, "")
		cmd.Flags().Int64Var(&p.start, "start", 0, "")
		cmd.Flags().DurationVar(&p.every, "every", 0, "")
		root.AddCommand(cmd)
	}
	return root
}

func now() int64 { return time.Now().UnixNano() }

// say prints a line of what happened.
func say(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// wait waits, unless ctx ends first.
func wait(ctx context.Context, d time.Duration) error {
	sleep.For(ctx, d)
	return ctx.Err()
}

// around is a time of about d, so that two loops do not fall into step.
func around(d time.Duration) time.Duration { return d/2 + rand.N(d) }
