// Command guest is process 1 of a host of nfslab. It is built and started by the
// package lab and is of no use elsewhere; package agent has what it does.
package main

import (
	"fmt"
	"os"

	"kaas.dev/kaas/tools/nfslab/agent"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: only of use as process 1 of a host of nfslab")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "guest:", agent.Run()) // the kernel panics at the end of process 1, which ends the host
	os.Exit(1)
}
