// Command kaas is the broker.
//
//	kaas [--config server.properties] [--set key=value …]
//
// It exits with 0 when it was stopped, 1 when it refused to start or failed, and 3
// when another process with the same node.id has taken over.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/lmittmann/tint"
	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/server"
)

const (
	exitFailed = 1
	exitFenced = 3
	// retireTime is how long others may take to take over what a broker leads that stops.
	retireTime = 25 * time.Second
	// stopTime is how long a graceful stop may take after that.
	stopTime = 1800 * time.Millisecond
)

// version is set by the linker for a release.
var version = ""

func main() {
	err := command().Execute()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "kaas:", strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.Is(err, substrate.ErrFenced) {
		os.Exit(exitFenced)
	}
	os.Exit(exitFailed)
}

func command() *cobra.Command {
	var src server.Sources
	cmd := &cobra.Command{
		Use:           "kaas",
		Short:         "A Kafka-compatible broker on a shared volume",
		Args:          cobra.NoArgs,
		Version:       buildVersion(),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error {
			src.Environ = os.Environ()
			cfg, err := server.LoadConfig(src)
			if err != nil {
				return err
			}
			return run(cfg)
		},
	}
	cmd.Flags().StringVar(&src.File, "config", "", "properties `file`")
	cmd.Flags().StringArrayVar(&src.Sets, "set", nil, "`key=value`, wins over environment and file; may be repeated")
	return cmd
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

func logger(level slog.Leveler) *slog.Logger {
	if isatty.IsTerminal(os.Stderr.Fd()) {
		return slog.New(tint.NewTextHandler(os.Stderr, &tint.Options{Level: level, TimeFormat: time.TimeOnly}))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// run serves until a signal or the broker's own end. A second signal ends the
// process at once.
func run(cfg *server.Config) error {
	if os.Getenv("GOGC") == "" {
		defer pace()()
	}
	log := logger(cfg.Logging)
	slog.SetDefault(log)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)

	n, err := open(cfg, log, signals)
	if err != nil || n == nil {
		return err
	}
	select {
	case sig := <-signals:
		log.Info("stopping", "signal", sig.String())
	case <-n.Done():
		log.Error("the broker has ended", "err", n.Err())
	}
	go func() { // ends with the process
		<-signals
		os.Exit(exitFailed)
	}()
	retire(n, log)
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	ended := n.Err()
	if err := n.Stop(ctx); err != nil {
		log.Warn("stopped in a hurry; the next start recovers what was not handed over", "err", err)
	}
	return ended
}

func retire(n *server.Node, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), retireTime)
	defer cancel()
	if err := n.Retire(ctx); err != nil {
		log.Warn("stopped before others have taken over what this broker led", "err", err)
	}
}

// open starts the broker; a signal meanwhile gives the start up and returns nil.
func open(cfg *server.Config, log *slog.Logger, signals <-chan os.Signal) (*server.Node, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type result struct {
		n   *server.Node
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := server.Open(ctx, cfg, log)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		return r.n, r.err
	case sig := <-signals:
		log.Info("stopping before the start was over", "signal", sig.String())
		return nil, nil // what the start has begun is left as after a crash
	}
}
