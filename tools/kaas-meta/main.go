// Command kaas-meta reads a kaas volume: the history of its streams, the state at
// any retained position, whether all of it is sound, and whether the volume can be used
// at all. These commands work on the directory, with or without brokers running, and
// change nothing; probe writes, in a directory of its own.
//
//	kaas-meta --dir DIR log  [--stream cluster|groups/NN|txns/NN|topics/TOPIC/PARTITION] [-o table|json|yaml]
//	kaas-meta --dir DIR dump [--stream …] [--at POSITION] [-o yaml|json]
//	kaas-meta --dir DIR groups [GROUP] [--at POSITION] [-o table|json|yaml]
//	kaas-meta --dir DIR txns [TRANSACTIONAL-ID] [--at POSITION] [-o table|json|yaml]
//	kaas-meta --dir DIR verify [-o table|json|yaml]
//	kaas-meta --dir DIR probe [-o table|json|yaml]
//
// Exit codes: 0 done, 1 it could not be done or a check of probe failed, 3 verify found
// faults.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
)

func main() {
	cmd := rootCommand(os.Stdout)
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "kaas-meta:", err)
		if errors.Is(err, errFaults) {
			os.Exit(3)
		}
		os.Exit(1)
	}
}

// app is what the commands share.
type app struct {
	dir    string
	output string
	out    io.Writer
	screen screen
}

func rootCommand(out io.Writer) *cobra.Command {
	a := &app{out: out, screen: screenOf(out, os.Getenv)}
	cmd := &cobra.Command{
		Use:           "kaas-meta",
		Short:         "Read the history and the state on a kaas volume",
		Long:          "Read the history and the state on a kaas volume, offline, changing nothing but where probe tries the volume.\nExit codes: 0 done, 1 it could not be done or a check of probe failed, 3 verify found faults.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetOut(out)
	cmd.PersistentFlags().StringVar(&a.dir, "dir", "", "the volume's directory (log.dirs of its brokers)")
	cmd.AddCommand(a.logCommand(), a.dumpCommand(), a.groupsCommand(), a.txnsCommand(), a.verifyCommand(), a.probeCommand())
	return cmd
}

// open opens the volume to read.
func (a *app) open() (*substrate.Volume, error) {
	if a.dir == "" {
		return nil, errors.New("--dir is not set: name the volume's directory")
	}
	fs, err := substrate.OpenDir(a.dir)
	if err != nil {
		return nil, err
	}
	return substrate.ReadVolume(fs)
}
