package lab

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// await looks every so often until done says so. done's error ends the waiting; most
// running out is an error that names what was waited for and why it is not so.
func await(ctx context.Context, what string, most time.Duration, look func(context.Context) (done bool, why error, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		done, why, err := look(ctx)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if why != nil {
				return fmt.Errorf("%s: %w: %w", what, ctx.Err(), why)
			}
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// command runs a program to its end and has what it printed in its error.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// quote makes words of a shell's command.
func quote(words ...string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(out, " ")
}
