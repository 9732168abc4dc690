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
	var dir string
	cmd := &cobra.Command{
		Use:   "api --dir DIR",
		Short: "An API server for tests, until the standard input closes or SIGTERM",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return api(cmd.Context(), dir) },
	}
	cmd.Flags().StringVar(&dir, "dir", "", "where the kubeconfig, the pids, the logs and the data are")
	_ = cmd.MarkFlagRequired("dir") // the flag is there
	return cmd
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
