package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// RunInside is the first process of the node's namespaces. It furnishes them, starts the
// process that runs the programs, and buries whoever has lost its parent. It ends when that
// process does.
func RunInside(ctx context.Context, dir string) error {
	begin, status := os.NewFile(fdGo, "go"), os.NewFile(fdStatus, "status")
	if _, err := begin.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("who made this process has ended: %w", err)
	}
	if err := begin.Close(); err != nil {
		return err
	}
	n, err := At(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(n.furnishMounts(), unix.Sethostname([]byte(nodeName))); err != nil {
		return err
	}
	if err := n.furnishNetwork(ctx); err != nil {
		return err
	}
	kube, err := os.StartProcess("/proc/self/exe", []string{"k8snode", Kube, "--dir", n.Dir}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, status},
	})
	if err != nil {
		return err
	}
	if err := status.Close(); err != nil {
		return err
	}
	return bury(kube.Pid)
}

func bury(until int) error {
	for {
		var how syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &how, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case pid == until:
			return fmt.Errorf("the programs' process ended with code %d", how.ExitStatus())
		}
	}
}

// furnishMounts keeps what is mounted here from the machine, and lays the node's own
// directories where its programs look for theirs.
func (n *Node) furnishMounts() error {
	groups, err := hierarchies() // while the machine's are to be seen
	if err != nil {
		return err
	}
	for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} { // not out, but to pods
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("keep mounts apart: %w", err)
		}
	}
	for _, m := range []struct {
		kind, at string
		flags    uintptr
		options  string
	}{
		{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	if err := mountCgroups(groups); err != nil {
		return err
	}
	for _, dir := range []string{"lib", "log"} {
		from, to := n.path("var", dir), "/var/"+dir
		if err := os.MkdirAll(from, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", to, err)
		}
	}
	return nil
}
