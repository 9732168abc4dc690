// Command k8snode makes a Kubernetes on this machine, from sources that Go fetches.
//
//	k8snode build [NAMES]     the programs of Kubernetes, once, into the user's cache directory
//	k8snode missing [NAMES]   which of them are not built
//
// An API server for tests, without pods, needs nothing but Go:
//
//	k8snode api --dir DIR     etcd and kube-apiserver, until the standard input closes or SIGTERM
//
// It prints the line "ready" when the API answers, and leaves DIR/kubeconfig,
// DIR/kube-apiserver.pid, DIR/etcd.pid and a log of each. Whoever of the two is killed comes
// back with its data, at its old port. They end with k8snode, in whatever way it ends.
//
// A whole node needs root and what Debian has of containers, which it installs:
//
//	k8snode up --dir DIR                        start it, in a directory that is new or empty
//	k8snode image --dir DIR NAME PROGRAM …      an image of static programs
//	k8snode exec --dir DIR -- COMMAND           run something within it
//	k8snode signal --dir DIR PROGRAM SIGNAL     a signal for one of its programs
//	k8snode down --dir DIR                      end it and remove all of it
//
// up ends when the node takes pods, and prints what a shell must know to use kubectl. Package
// node tells what the node is made of, docs/kubernetes-node.md what was seen on it.
package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/deploy/k8snode/programs"
)

//go:embed go.mod go.sum coredns.mod coredns.sum pause/main.go
var module embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "k8snode:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "k8snode",
		Short:         "A Kubernetes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(buildCommand(), missingCommand(), apiCommand(), upCommand(), downCommand(), execCommand(), signalCommand(), imageCommand(),
		insideCommand(), kubeCommand())
	return root
}

func openPrograms() (*programs.Set, error) {
	return programs.Open(programs.Set{Files: module, Log: os.Stderr})
}

// named are the programs that a command line names; all of them, if none.
func named(args []string) []string {
	if len(args) == 0 {
		return programs.Names()
	}
	return args
}

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [NAMES]",
		Short: "Build the programs that have not been built yet, and print where they are",
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := openPrograms()
			if err != nil {
				return err
			}
			names := named(args)
			if err := set.Build(cmd.Context(), names...); err != nil {
				return err
			}
			for _, name := range names {
				fmt.Println(set.Path(name))
			}
			return nil
		},
	}
}

func missingCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "missing [NAMES]",
		Short: "Print which programs have not been built yet",
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := openPrograms()
			if err != nil {
				return err
			}
			missing, err := set.Missing(named(args)...)
			for _, name := range missing {
				fmt.Println(name)
			}
			return err
		},
	}
}
