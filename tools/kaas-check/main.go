// Command kaas-check uses a cluster, troubles it, and checks that nothing happened which
// must not happen.
//
//	kaas-check run [--for 10m] [--seed N] [--brokers 3] [--faults kill,pause,…|local|lab|api|none] [--every 8s] [--freeze D] [--groups=false] [--txns=false]
//	               [--election kubernetes | --chart [--value NAME=VALUE …]] [--crowd N]
//	               [--lab [--kernel] [--mount OPTIONS]] [--binary FILE] [--break no-check|no-seal]
//	kaas-check verify FILE     checks a history that was kept
//	kaas-check dump FILE       prints one, an operation a line
//
// A run starts brokers, lets producers, readers, observers, makers of topics, consumer
// groups and transactions use them (package traffic), carries out a plan of faults made from the seed (package
// nemesis), lets everything recover, reads all once more, and gives what was done and seen
// (package history) to the checker (package checker). It ends with code 1 when there is a
// violation, prints the shortest story that shows it, and keeps the history, the logs
// of the brokers and the volume; with code 2 where it did not come about, and shows
// nothing.
//
// With the fault clock, which hosts of the lab can have besides their list, clocks step by an
// hour to either side, and that of the last host is wrong all the time. What is kept without a
// word (package traffic, Held) has to last; and the controller, where nothing else is troubled.
//
// With --break a rule of the fence is left out of the brokers, which are built with the
// tag kaasbreak for it. Such a run has to find violations, and not only be told that
// something was wrong; it ends with code 1 where it does not.
//
// kaas-check writes in a directory of its own inside --dir, and ends only processes that
// it has started.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/tools/kaas-check/checker"
	"kaas.dev/kaas/tools/kaas-check/history"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := &cobra.Command{Use: "kaas-check", Short: "Use a cluster, trouble it, and check what came of it", SilenceUsage: true, SilenceErrors: true}
	cmd.AddCommand(runCommand(os.Stdout), verifyCommand(os.Stdout), dumpCommand(os.Stdout))
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kaas-check:", err)
		os.Exit(codeOf(err))
	}
}

// codeOf is 1 where something was found to be wrong, and 2 where that is not known.
func codeOf(err error) int {
	if errors.Is(err, errViolations) || errors.Is(err, errBlind) {
		return 1
	}
	return 2
}

// settings are what a run is told.
type settings struct {
	duration time.Duration
	every    time.Duration
	freeze   time.Duration // of every pause, unless 0
	seed     int64
	brokers  int
	faults   string
	binary   string
	without  string // the rule that is left out
	dir      string
	keep     bool
	rate     int
	groups   bool
	txns     bool
	sets     []string
	lab      bool
	mount    string   // options of the lab's hosts
	kernel   bool     // the lab's file server is a kernel's
	election string   // volume or kubernetes
	chart    bool     // the brokers are pods
	values   []string // of the chart
	crowd    int      // producers more
	gaps     bool     // measure them
}

func runCommand(out io.Writer) *cobra.Command {
	var s settings
	cmd := &cobra.Command{Use: "run", Short: "Run traffic and faults, and check", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return run(cmd.Context(), s, out)
	}}
	f := cmd.Flags()
	f.DurationVar(&s.duration, "for", 10*time.Minute, "how long traffic and faults last")
	f.DurationVar(&s.every, "every", 8*time.Second, "time between two faults, on average")
	f.DurationVar(&s.freeze, "freeze", 0, "how long brokers and hosts are paused, and the API server is in trouble; chosen by the seed unless given")
	f.Int64Var(&s.seed, "seed", 0, "`seed` of the plan; 0 is one from the clock")
	f.IntVar(&s.brokers, "brokers", 3, "brokers")
	f.StringVar(&s.faults, "faults", "", "`kinds` of faults, or the lists local, lab and api, or none; with --chart the list pods, or storm, or those of the API server; unless given, what needs no root, with --election kubernetes those of its API server, too, and with --lab the list lab; hosts there can have clock, too")
	f.StringVar(&s.binary, "binary", "", "`file` of the broker; built from this module unless given")
	f.StringVar(&s.without, "break", "", "`rule` to leave out: no-check or no-seal")
	f.StringVar(&s.dir, "dir", "kaas-check-data", "`directory` to work in")
	f.BoolVar(&s.keep, "keep", false, "keep history, logs and volume when all went well, too")
	f.IntVar(&s.rate, "rate", 50, "records a second of each producer")
	f.BoolVar(&s.groups, "groups", true, "consumer groups, too")
	f.BoolVar(&s.txns, "txns", true, "transactions, too")
	f.StringArrayVar(&s.sets, "set", nil, "`key=value` for every broker; may be repeated")
	f.BoolVar(&s.lab, "lab", false, "brokers on hosts of their own, on real NFS; needs root")
	f.StringVar(&s.mount, "mount", "", "further mount `options` of the lab's hosts")
	f.BoolVar(&s.gaps, "gaps", false, "tell how long each fault left a partition without an acknowledged write; always so with --chart")
	f.BoolVar(&s.chart, "chart", false, "brokers are pods of deploy/helm on a node of deploy/k8snode; needs root")
	f.StringArrayVar(&s.values, "value", nil, "`name=value` of the chart, as helm --set takes it; may be repeated")
	f.IntVar(&s.crowd, "crowd", 0, "so many producers more")
	f.StringVar(&s.election, "election", "volume", "what elects the controller of local brokers: volume, or kubernetes, by the API server of deploy/k8snode")
	f.BoolVar(&s.kernel, "kernel", false, "the lab's file server is the kernel's, delegations on")
	return cmd
}

func verifyCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{Use: "verify FILE", Short: "Check a history again", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		h, err := history.Load(args[0])
		if err != nil {
			return err
		}
		rep := checker.Check(h)
		summary(out, h)
		rep.Print(out, h)
		return verdict(rep)
	}}
}

var (
	errViolations = errors.New("there are violations")
	errBlind      = errors.New("a rule was left out, and nothing was noticed in what was written and read")
)

func verdict(rep *checker.Report) error {
	if rep.Total() > 0 {
		return errViolations
	}
	return nil
}

// noticed wants violations that are seen in what was written and read.
func noticed(rep *checker.Report) error {
	if rep.OfRecords() == 0 {
		return errBlind
	}
	return nil
}

// line is an operation as dump prints it.
type line struct {
	From    float64          `json:"from_s"`
	To      float64          `json:"to_s"`
	Outcome string           `json:"outcome,omitempty"`
	Process string           `json:"process"`
	What    string           `json:"what"`
	Records []history.Record `json:"records,omitempty"` // where a read differs from what was read first
}

func dumpCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{Use: "dump FILE", Short: "Print a history as JSON, an operation a line", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		h, err := history.Load(args[0])
		if err != nil {
			return err
		}
		enc := json.NewEncoder(out)
		for i := range h.Ops {
			op := &h.Ops[i]
			l := line{time.Duration(op.Invoke).Seconds(), time.Duration(op.Complete).Seconds(), op.Outcome.String(), h.Name(op.Proc), h.Tell(op, -1), op.Records}
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
		return nil
	}}
}
