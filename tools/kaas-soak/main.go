// Command kaas-soak runs a broker at full speed, kills it again and again, and checks
// all that comes out of it.
//
//	kaas-soak [--for 10m] [--kill 10s] [--dir DIR] [--broker BINARY] [--partitions N] [--keep]
//
// Idempotent producers write two topics without a pause: one whose retention.bytes
// always has something to remove, one that is compacted. Every --kill the broker gets
// kill -9 and is started again. Segments are small, so that rolls, retention,
// compaction and takeovers meet.
//
// # What is checked
//
// A partition has one producer, which gives up nothing, so the n-th record that is
// written has offset n, and its content follows from n. That makes the checks simple:
//
//   - Every acknowledgement names the next offset.
//   - A reader at the tail, and others that read all from the log start, meet every
//     offset above the log start once, in order, with the bytes that were written.
//   - In the compacted topic offsets rise, each record is what was written there, and
//     of each key there is at least what was last acknowledged before the reading began.
//   - The log start never goes back, and leaves at least retention.bytes.
//   - The broker never ends by itself, and acknowledges again within 30 s of each kill.
//   - Its memory and descriptors in the last third of the time are about what they were
//     in the first.
//
// It prints a line a minute and a summary. At the first violation it stops with code 1,
// tells what happened before it, and leaves the volume.
//
// kaas-soak writes in a directory of its own inside --dir, and ends only processes
// that it has started.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kaas-soak:", err)
		os.Exit(1)
	}
}

// plan is what a run is told.
type plan struct {
	duration   time.Duration
	kill       time.Duration // between two kills; 0 is never
	dir        string
	broker     string // binary; built where empty
	keep       bool
	partitions int32 // of each topic
}

func command(out io.Writer) *cobra.Command {
	var p plan
	cmd := &cobra.Command{
		Use:           "kaas-soak",
		Short:         "Load a broker, kill it again and again, and check what comes out",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), p, out) },
	}
	cmd.Flags().DurationVar(&p.duration, "for", 10*time.Minute, "how long to load it")
	cmd.Flags().DurationVar(&p.kill, "kill", 10*time.Second, "time between two kills; 0 is never")
	cmd.Flags().StringVar(&p.dir, "dir", "kaas-soak-data", "`directory` to work in, on the disk that is wanted")
	cmd.Flags().StringVar(&p.broker, "broker", "", "`binary` of the broker; built from this module unless given")
	cmd.Flags().BoolVar(&p.keep, "keep", false, "leave the volume when all went well, too")
	cmd.Flags().Int32Var(&p.partitions, "partitions", 2, "partitions of each topic")
	return cmd
}
