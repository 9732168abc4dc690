// Command kaas-bench loads a broker that speaks Kafka's protocol and tells what it
// did: throughput, latency, and what it cost the server.
//
//	kaas-bench produce --bootstrap HOST:PORT [--partitions N --producers N --size 1KiB --duration 10s …]
//	kaas-bench consume --bootstrap HOST:PORT [--consumers N …]
//	kaas-bench e2e     --bootstrap HOST:PORT [--rate 1000 …]
//	kaas-bench transactions --bootstrap HOST:PORT [--partitions N --producers N …]
//	kaas-bench compare [--transactions] [--quick] [--rounds N] [--cell 4s] [--doc docs/benchmarks.md]
//	kaas-bench failover [--servers kafka,kaas --partitions 1000 --producers 16 --rounds N] [--doc docs/benchmarks.md]
//	kaas-bench many     [--partitions 10000 --brokers 3] [--doc docs/benchmarks.md]
//
// With --pid the figures have the server's CPU time, peak memory, bytes read and
// written, and its calls of fsync and fdatasync. Those calls are counted by perf
// where perf may use tracepoints; where it may not, the figure is left empty.
//
// A figure counts what was acknowledged within the measured time, which begins
// after the warm-up. Latency is from when a record was due, so that a server
// that stalls does not get a smaller load and better figures. MB is 10^6 bytes of
// record values.
//
// failover starts clusters, kills and stops their brokers under a load that writes to
// every partition all the time, and tells how long partitions took no writes. many
// starts brokers that have many partitions.
//
// Those that start servers make directories of their own, and end only processes that
// they have started.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// The load shares the machine with the server: memory is cheaper than time.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := rootCommand(os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kaas-bench:", err)
		os.Exit(1)
	}
}

func rootCommand(out io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kaas-bench",
		Short:         "Load a broker and tell what it did and what that cost",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetOut(out)
	cmd.AddCommand(produceCommand(), consumeCommand(), e2eCommand(), transactionsCommand(), compareCommand(), failoverCommand(), manyCommand())
	return cmd
}
