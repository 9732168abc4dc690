// Command kaas-cluster runs several brokers on one directory, for anyone to try.
//
//	kaas-cluster [--brokers 3] [--dir kaas-cluster-data] [--port 9092] [--http 8080]
//	             [--again 5s] [--kaas BINARY] [--log-level warn] [--set key=value …]
//
// Broker i of node.id i listens on the i-th port from --port on, and for HTTP on the
// i-th from --http on. Once all are ready it prints their process IDs and the line for
// bootstrap.servers. A broker that ends, by kill -9 for instance, is started again
// after --again, so that both can be seen: the others take over, and it gets its share
// back. One interrupt ends all brokers in order, a second one at once.
//
// It ends only processes that it has started, and leaves the directory.
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
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	hurry, now := context.WithCancel(context.Background())
	defer now()
	go func() { // ends with the process
		<-signals
		stop()
		<-signals
		now()
	}()
	if err := command(hurry, os.Stdout).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kaas-cluster:", err)
		os.Exit(1)
	}
}

// plan is what a run is told.
type plan struct {
	brokers  int
	dir      string
	port     int
	http     int
	again    time.Duration // from the end of a broker to its next start; 0 is never
	binary   string        // built where empty
	logLevel string
	sets     []string
}

// command runs until the context of its execution ends; the end of hurry has what
// still runs then killed.
func command(hurry context.Context, out io.Writer) *cobra.Command {
	var p plan
	cmd := &cobra.Command{
		Use:           "kaas-cluster",
		Short:         "Run several brokers on one directory",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), hurry, p, &lines{out: out})
		},
	}
	f := cmd.Flags()
	f.IntVar(&p.brokers, "brokers", 3, "number of brokers")
	f.StringVar(&p.dir, "dir", "kaas-cluster-data", "`directory` that all share; made if it is missing")
	f.IntVar(&p.port, "port", 9092, "port of the first broker")
	f.IntVar(&p.http, "http", 8080, "HTTP port of the first broker")
	f.DurationVar(&p.again, "again", 5*time.Second, "time from the end of a broker to its next start; 0 leaves it down")
	f.StringVar(&p.binary, "kaas", "", "`binary` of the broker; built from this module if not given")
	f.StringVar(&p.logLevel, "log-level", "warn", "what brokers log: debug, info, warn or error")
	f.StringArrayVar(&p.sets, "set", nil, "further `key=value` of all brokers; may be repeated")
	return cmd
}
