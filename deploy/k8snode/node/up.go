package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"kaas.dev/kaas/deploy/k8snode/programs"
)

// Inside is the command of k8snode that is the first process of a node, and Kube the one that
// runs its programs. Both take the directory.
const (
	Inside = "inside"
	Kube   = "kube"
)

// Descriptors that Inside has from Up: it begins when the first closes with a byte in it, and
// says in the second what is done, line by line, with ready as the last.
const (
	fdGo     = 3
	fdStatus = 4
	ready    = "ready"
)

// Up starts a node in a directory and returns when it takes pods. It says on the log what it
// does. The node stays when Up's process ends.
func Up(ctx context.Context, dir string, set *programs.Set, log io.Writer) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("only root can make a node: it needs namespaces and mounts of its own")
	}
	if err := install(ctx, log); err != nil {
		return err
	}
	if err := set.Build(ctx, programs.Names()...); err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	n := &Node{Dir: dir}
	if err := n.claim(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			fmt.Fprintln(log, "it did not come up, and what there is of it is taken down but for its directory")
			err = errors.Join(err, n.dismantle(context.WithoutCancel(ctx)))
		}
	}()
	return n.up(ctx, log)
}

func (n *Node) up(ctx context.Context, log io.Writer) error {
	unlock, err := n.takeNumber()
	if err != nil {
		return err
	}
	defer unlock()
	fmt.Fprintf(log, "the network %s at %s, pods %s, Services %s and %s\n", n.outerLink(), n.innerIP(), n.pods(), n.services(), n.balancers())
	if err := n.makeLink(ctx); err != nil {
		return err
	}
	leave, err := n.enterCgroups()
	if err != nil {
		return err
	}
	first, err := n.startInside()
	if err := errors.Join(err, leave()); err != nil {
		return err
	}
	defer first.close()
	if err := n.handOver(ctx, first); err != nil {
		return err
	}
	unlock()
	return first.await(ctx, log, n.path("node.log"))
}

// first is the first process of a node, as its maker sees it.
type first struct {
	cmd    *exec.Cmd
	begin  *os.File
	status *os.File
}

func (f *first) close() {
	f.begin.Close()
	f.status.Close()
}

func (n *Node) startInside() (*first, error) {
	out, err := os.OpenFile(n.path("node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	goR, goW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer goR.Close()
	statusR, statusW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, goW.Close())
	}
	defer statusW.Close()
	f := &first{begin: goW, status: statusR}
	f.cmd = exec.Command("/proc/self/exe", Inside, "--dir", n.Dir)
	f.cmd.Stdout, f.cmd.Stderr = out, out
	f.cmd.ExtraFiles = []*os.File{goR, statusW}
	f.cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS |
			unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP,
	}
	if err := f.cmd.Start(); err != nil {
		f.close()
		return nil, fmt.Errorf("new namespaces: %w", err)
	}
	return f, nil
}

// handOver gives the first process its end of the link, and lets it begin. Until then it ends
// when its maker does.
func (n *Node) handOver(ctx context.Context, f *first) error {
	if err := n.writePID(f.cmd.Process.Pid); err != nil {
		return err
	}
	if err := n.moveLink(ctx, f.cmd.Process.Pid); err != nil {
		return err
	}
	if _, err := f.begin.Write([]byte{1}); err != nil {
		return err
	}
	return f.begin.Close()
}

// await passes on what the node says, until it is ready.
func (f *first) await(ctx context.Context, log io.Writer, file string) error {
	stop := context.AfterFunc(ctx, func() { f.status.Close() })
	defer stop()
	for lines := bufio.NewScanner(f.status); lines.Scan(); {
		if lines.Text() == ready {
			return nil
		}
		fmt.Fprintln(log, lines.Text())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the node has ended; its last words are in %s:\n%s", file, tail(file))
}

func tail(file string) string {
	b, _ := os.ReadFile(file) // without it the error says less
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Enter makes a command that runs within a running node.
func (n *Node) Enter(ctx context.Context, args ...string) (*exec.Cmd, error) {
	pid := n.PID()
	if pid == 0 {
		return nil, fmt.Errorf("no node is up in %s", n.Dir)
	}
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target", strconv.Itoa(pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--"}, args...)...), nil
}

// Signal makes a command that sends a signal to one of a running node's programs.
func (n *Node) Signal(ctx context.Context, program, signal string) (*exec.Cmd, error) {
	return n.Enter(ctx, "sh", "-c", `kill -s "$1" "$(cat "$2")"`, "sh", signal, filepath.Join(pids, program+".pid"))
}
