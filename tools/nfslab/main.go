// Command nfslab runs several small Linux hosts on one machine that share a volume
// over real NFS, for brokers and tests to run on, and breaks them on request.
//
//	nfslab able                          why this machine cannot have a lab; nothing if it can
//	nfslab install                       what the lab needs, by apt-get, as root
//	nfslab up [--hosts 3] [--brokers N] [--mem MB] [--mount OPTIONS] [--kernel] [--dir DIR]
//	nfslab exec N 'COMMAND'              on host N, in the directory of the volume
//	nfslab spawn N 'COMMAND'             the same in the background; prints its number and log
//	nfslab broker N [-- FLAGS]           a broker on host N
//	nfslab ns COMMAND …                  on this machine, within the lab's network
//	nfslab kill|boot N                   power loss of a host, and its return
//	nfslab pause|resume N                a host frozen, and thawed
//	nfslab cut|heal N                    a host off the network, and back
//	nfslab clock N [--ahead D]           how far a host's clock is ahead; sets it
//	nfslab server pause|resume|kill|start
//	nfslab status
//	nfslab down
//
// exec ends with the code of its command. docs/nfslab.md tells how the lab works and
// what was measured on it; package lab is for Go programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command().ExecuteContext(ctx)
	var code exitCode
	var ended *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &code):
		os.Exit(int(code))
	case errors.As(err, &ended):
		os.Exit(ended.ExitCode())
	default:
		fmt.Fprintln(os.Stderr, "nfslab:", err)
		os.Exit(1)
	}
}

// exitCode is that of a command on a host.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "nfslab",
		Short:         "Several hosts on one machine that share a volume over real NFS",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(ableCommand(), installCommand(), upCommand(), downCommand(), statusCommand(), execCommand(), spawnCommand(),
		brokerCommand(), nsCommand(), clockCommand(), serverCommand())
	root.AddCommand(hostCommands()...)
	return root
}
