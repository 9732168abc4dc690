package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/deploy/k8snode/control"
)

func apiCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "api --dir DIR",
		Short: "An API server for tests, until the standard input closes or SIGTERM",
		Args:  cobra.NoArgs,
	}
	return withDir(cmd, func(cmd *cobra.Command, dir string, _ []string) error { return api(cmd.Context(), dir) })
}

func api(ctx context.Context, dir string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // it may stay in its read: the process ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	set, err := openPrograms()
	if err != nil {
		return err
	}
	if err := set.Build(ctx, control.Programs...); err != nil {
		return err
	}
	plane := &control.Plane{Dir: dir, Programs: set}
	return plane.Run(ctx, func(context.Context) error {
		_, err := fmt.Println("ready")
		return err
	})
}
