// Command kaas-meta reads a kaas volume: the history of its streams, the state at
// any retained position or time, what changed between two, the life of one thing, whether
// all of it is sound, and whether the volume can be used at all. These commands work on the
// directory, with or without brokers running, and change nothing; probe writes, in a
// directory of its own, backup a file, restore a new epoch of what it restores, and user one of
// the cluster stream.
//
//	kaas-meta --dir DIR log  [--stream cluster|groups/NN|txns/NN|topics/TOPIC/PARTITION] [--since --until --type --topic --group --broker …] [--follow]
//	kaas-meta --dir DIR dump [--stream …] [--at POSITION|TIME]
//	kaas-meta --dir DIR diff A B [--stream …|all]
//	kaas-meta --dir DIR show KIND NAME [--at POSITION|TIME] [--history]
//	kaas-meta --dir DIR groups [GROUP] [--at POSITION|TIME]
//	kaas-meta --dir DIR txns [TRANSACTIONAL-ID] [--at POSITION|TIME]
//	kaas-meta --dir DIR verify [--deep]
//	kaas-meta --dir DIR probe
//	kaas-meta --dir DIR timeline --html FILE [--since --until] [--stream …]
//	kaas-meta --dir DIR backup FILE [--streams …] [--at POSITION|TIME]
//	kaas-meta --dir DIR restore FILE | --at POSITION|TIME|FILE [--streams …] [--group … --topic …] [--prune] [--dry-run]
//	kaas-meta --dir DIR restore --volume-rolled-back [--epoch-margin N] [--dry-run]
//	kaas-meta --dir DIR rebuild [--epoch-margin N] [--make-missing] [--force] [--dry-run]
//	kaas-meta --dir DIR user list | add NAME | delete NAME
//	kaas-meta completion bash|zsh|fish|powershell
//	kaas-meta man
//
// All that show something take -o json and -o yaml. dump, groups and txns ask the brokers
// instead, with --bootstrap-server HOST:PORT in the place of --dir, and by TLS and SASL as
// --command-config FILE says, which has the properties of Kafka's clients.
//
// Exit codes: 0 done, 1 it could not be done or a check of probe failed, 2 the command line
// is wrong, 3 verify found faults.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/internal/substrate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process, whatever call hangs.
	context.AfterFunc(ctx, stop)
	err := rootCommand(os.Stdout).ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "kaas-meta:", err)
	}
	os.Exit(exitCode(err))
}

// app is what the commands share.
type app struct {
	dir string
	// bootstrap are brokers to ask, for commands that can; empty for the volume.
	bootstrap string
	// commandConfig is the file that says how to reach them.
	commandConfig string
	output        string
	secrets       bool // are shown
	out           io.Writer
	printed       *printed // is out
	screen        screen
}

func rootCommand(out io.Writer) *cobra.Command {
	printed := &printed{w: out}
	a := &app{out: printed, printed: printed, screen: screenOf(out, os.Getenv)}
	cmd := &cobra.Command{
		Use:   "kaas-meta",
		Short: "Read the history and the state on a kaas volume, prove it, and put it back",
		Long: "Read the history and the state on a kaas volume, prove that it is sound, and put a cluster back. With --dir the volume is\n" +
			"read without brokers; only restore, rebuild and user change it, and probe tries it. With --bootstrap-server brokers are asked.\n" +
			"Exit codes: 0 done, 1 it could not be done, or only in part, or a check of probe failed, 2 the command line is wrong,\n" +
			"3 verify found faults. A second interrupt ends the process, whatever call hangs.",
		PersistentPostRunE: func(*cobra.Command, []string) error { return printed.err },
		SilenceUsage:       true,
		SilenceErrors:      true,
	}
	cmd.SetOut(out)
	cmd.PersistentFlags().StringVar(&a.dir, "dir", "", "the volume's directory (log.dirs of its brokers)")
	cmd.AddCommand(a.logCommand(), a.dumpCommand(), a.diffCommand(), a.showCommand())
	cmd.AddCommand(a.groupsCommand(), a.txnsCommand())
	cmd.AddCommand(a.verifyCommand())
	cmd.AddCommand(a.probeCommand())
	cmd.AddCommand(a.timelineCommand())
	cmd.AddCommand(a.backupCommand(), a.restoreCommand())
	cmd.AddCommand(a.rebuildCommand(), a.userCommand())
	cmd.AddCommand(a.manCommand())
	a.completions(cmd)
	typeUsage(cmd)
	return cmd
}

// open opens the volume to read.
func (a *app) open() (*substrate.Volume, error) {
	if a.commandConfig != "" {
		return nil, usagef("--command-config needs --bootstrap-server: it is for reaching brokers")
	}
	if a.dir == "" {
		return nil, usagef("--dir is not set: name the volume's directory")
	}
	fs, err := substrate.OpenDir(a.dir)
	if err != nil {
		return nil, err
	}
	fs.Private()
	return substrate.ReadVolume(fs)
}

// printed remembers that something could not be written, which a command's answer is not to
// be without.
type printed struct {
	w   io.Writer
	err error
}

func (p *printed) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if p.err == nil && err != nil {
		p.err = fmt.Errorf("write the answer: %w", err)
	}
	return n, err
}
