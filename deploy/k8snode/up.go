package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/deploy/k8snode/image"
	"kaas.dev/kaas/deploy/k8snode/node"
)

// withDir gives a command the flag of the directory of a node.
func withDir(cmd *cobra.Command, do func(cmd *cobra.Command, dir string, args []string) error) *cobra.Command {
	dir := cmd.Flags().String("dir", "", "where the kubeconfig, the pids, the logs and the data are")
	_ = cmd.MarkFlagRequired("dir") // the flag is there
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return do(cmd, *dir, args) }
	return cmd
}

func upCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "up --dir DIR", Short: "Start a node, which stays, in a directory that is new or empty", Args: cobra.NoArgs}
	return withDir(cmd, func(cmd *cobra.Command, dir string, _ []string) error {
		set, err := openPrograms()
		if err != nil {
			return err
		}
		if err := node.Up(cmd.Context(), dir, set, os.Stderr); err != nil {
			return err
		}
		_, err = fmt.Printf("export KUBECONFIG=%s\nexport PATH=%s:$PATH\n", filepath.Join(dir, "kubeconfig"), filepath.Dir(set.Path("kubectl")))
		return err
	})
}

func downCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "down --dir DIR", Short: "End a node and remove all of it, the directory too", Args: cobra.NoArgs}
	return withDir(cmd, func(cmd *cobra.Command, dir string, _ []string) error { return node.Down(cmd.Context(), dir) })
}

func execCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "exec --dir DIR -- COMMAND", Short: "Run a command within a node, such as nft list ruleset", Args: cobra.MinimumNArgs(1)}
	return withDir(cmd, func(cmd *cobra.Command, dir string, args []string) error { return enter(cmd, dir, args...) })
}

func enter(cmd *cobra.Command, dir string, args ...string) error {
	n, err := node.At(dir)
	if err != nil {
		return err
	}
	inside, err := n.Enter(cmd.Context(), args...)
	if err != nil {
		return err
	}
	return attached(inside)
}

func attached(inside *exec.Cmd) error {
	inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, os.Stdout, os.Stderr
	return inside.Run()
}

func signalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "signal --dir DIR PROGRAM SIGNAL", Short: "Send a signal to a program of a node, such as kubelet STOP", Args: cobra.ExactArgs(2)}
	return withDir(cmd, func(cmd *cobra.Command, dir string, args []string) error {
		n, err := node.At(dir)
		if err != nil {
			return err
		}
		inside, err := n.Signal(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		return attached(inside)
	})
}

func imageCommand() *cobra.Command {
	i := &image.Image{}
	cmd := &cobra.Command{Use: "image --dir DIR NAME PROGRAM …", Short: "Give a node an image of static programs", Args: cobra.MinimumNArgs(2)}
	cmd.Flags().StringSliceVar(&i.Command, "command", nil, "what it runs, instead of the first program")
	cmd.Flags().StringVar(&i.User, "user", "65532:65532", "whom it runs as")
	return withDir(cmd, func(cmd *cobra.Command, dir string, args []string) (err error) {
		tmp, err := os.MkdirTemp("", "kaas-k8snode-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
		i.Name, i.Programs = args[0], args[1:]
		file := filepath.Join(tmp, "image.tar")
		if err := node.WriteImage(file, i); err != nil {
			return err
		}
		return enter(cmd, dir, "ctr", "--namespace", "k8s.io", "images", "import", file)
	})
}

// The processes of a node, which node.Up starts.

func insideCommand() *cobra.Command {
	cmd := &cobra.Command{Use: node.Inside, Hidden: true, Args: cobra.NoArgs}
	return withDir(cmd, func(cmd *cobra.Command, dir string, _ []string) error { return node.RunInside(cmd.Context(), dir) })
}

func kubeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: node.Kube, Hidden: true, Args: cobra.NoArgs}
	return withDir(cmd, func(cmd *cobra.Command, dir string, _ []string) error {
		set, err := openPrograms()
		if err != nil {
			return err
		}
		return node.RunKube(cmd.Context(), dir, set)
	})
}
