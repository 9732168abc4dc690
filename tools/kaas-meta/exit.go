package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kaas.dev/kaas/tools/kaas-meta/history"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // it could not be done
	exitUsage  = 2 // the command line is wrong
	exitFaults = 3 // it was done, and found faults
)

// usageError is a command line that is wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef says what is wrong with the command line.
func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

func exitCode(err error) int {
	var usage usageError
	var text *history.TextError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errFaults):
		return exitFaults
	// What cobra finds before a command runs has no type.
	case errors.As(err, &usage), errors.As(err, &text), strings.HasPrefix(err.Error(), "unknown command"), strings.HasPrefix(err.Error(), "required flag"):
		return exitUsage
	}
	return exitFailed
}

// typeUsage has wrong flags and arguments of a command and those below it told as usage errors.
func typeUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return usageError{err}
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		typeUsage(c)
	}
}
