package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Down ends the node of a directory and removes everything of it, the directory too, in
// whatever state it is.
func Down(ctx context.Context, dir string) error {
	n, err := At(dir)
	if err != nil {
		return err
	}
	if err := n.dismantle(ctx); err != nil {
		return err
	}
	return os.RemoveAll(n.Dir)
}

// dismantle removes what is outside of the directory.
func (n *Node) dismantle(ctx context.Context) error {
	if err := n.end(ctx); err != nil {
		return err
	}
	return errors.Join(n.removeLink(ctx), n.removeCgroups(ctx))
}

// end kills the first process, and waits until it and with it all others are gone.
func (n *Node) end(ctx context.Context) error {
	pid := n.PID()
	if pid == 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if n.PID() != pid { // from here on the descriptor is of that process and no later one
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	for ctx.Err() == nil {
		ended, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Second/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if ended > 0 {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end: %w", pid, context.Cause(ctx))
}
