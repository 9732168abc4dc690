// Command operator makes a cluster's topics and users what KafkaTopic and KafkaUser resources
// say. It speaks with the cluster as any client does, and never touches its volume.
//
//	operator --bootstrap-servers HOST:PORT,… [--command-config FILE] [--namespaces NS,…]
//
// Every flag can be given by the environment, too: --command-config is
// KAAS_OPERATOR_COMMAND_CONFIG. docs/operator.md tells of all of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	o, err := parse(args, env, out)
	if err == flag.ErrHelp {
		return nil
	}
	if err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: o.logLevel}))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	return run(ctx, o, log)
}
