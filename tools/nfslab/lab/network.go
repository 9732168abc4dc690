package lab

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"kaas.dev/kaas/internal/substrate"
)

const (
	netns     = "kaas-nfslab"
	bridge    = "br0"
	subnet    = "10.77.0.0/24"
	bridgeIP  = "10.77.0.1"
	netnsDir  = "/run/netns"
	agentPort = "7070"
)

func tap(n int) string { return "tap" + strconv.Itoa(n) }

// Addr is the address of host n; 0 is the host of a kernel server.
func Addr(n int) string { return fmt.Sprintf("10.77.0.%d", 10+n) }

// mac is a host's hardware address, the same at each boot, so that nobody sends to
// the one it had before.
func mac(n int) string { return fmt.Sprintf("02:00:0a:4d:00:%02x", 10+n) }

// makeNetwork makes the namespace, and in it a bridge with a tap for each host.
func makeNetwork(ctx context.Context, taps []int) error {
	steps := []string{
		"netns add " + netns,
		"-n " + netns + " link set lo up",
		"-n " + netns + " link add " + bridge + " type bridge",
		"-n " + netns + " addr add " + bridgeIP + "/24 dev " + bridge,
		"-n " + netns + " link set " + bridge + " up",
	}
	for _, n := range taps {
		steps = append(steps,
			"-n "+netns+" tuntap add dev "+tap(n)+" mode tap",
			"-n "+netns+" link set "+tap(n)+" master "+bridge,
			"-n "+netns+" link set "+tap(n)+" up")
	}
	for _, s := range steps {
		if _, err := command(ctx, "ip", strings.Fields(s)...); err != nil {
			return err
		}
	}
	return nil
}

func networkThere(ctx context.Context) bool {
	out, err := command(ctx, "ip", "netns", "list")
	if err != nil {
		return false
	}
	for line := range strings.Lines(out) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); name == netns {
			return true
		}
	}
	return false
}

// removeNetwork ends whatever runs in the namespace and removes it.
func removeNetwork(ctx context.Context) error {
	if !networkThere(ctx) {
		return nil
	}
	err := await(ctx, "end of all processes in namespace "+netns, time.Minute, func(ctx context.Context) (bool, error, error) {
		out, err := command(ctx, "ip", "netns", "pids", netns)
		if err != nil {
			return false, nil, err
		}
		var left []int
		for _, s := range strings.Fields(out) {
			if pid, err := strconv.Atoi(s); err == nil && pid > 1 && pid != unix.Getpid() {
				left = append(left, pid)
				_ = syscall.Kill(pid, syscall.SIGKILL) // gone already otherwise
			}
		}
		return len(left) == 0, fmt.Errorf("left: %v", left), nil
	})
	if err != nil {
		return err
	}
	_, err = command(ctx, "ip", "netns", "del", netns)
	return err
}

// DialContext connects to an address of the lab from within its network. It fits
// net.Dialer's method of that name, so that clients of this process can use it.
func (l *Lab) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err != nil || net.ParseIP(host) == nil {
		return nil, fmt.Errorf("dial %s: not an address of the lab, such as %s:9092", addr, Addr(1))
	}
	type answer struct {
		conn net.Conn
		err  error
	}
	done := make(chan answer, 1)
	onOwnThread(func() { // ends with ctx at the latest
		if err := enter(); err != nil {
			done <- answer{err: err}
			return
		}
		// A socket belongs to the namespace of the thread that makes it, and for one
		// literal address the dialer makes it right here.
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		done <- answer{conn, err}
	})
	a := <-done
	return a.conn, a.err
}

// onOwnThread starts f on a thread that nothing else ever uses, and that is not the
// main one: that one cannot end, and its namespace counts as the whole process's.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go func() { // on another thread, since this one is taken
			defer close(done)
			runtime.LockOSThread()
			f()
		}()
		<-done
	}()
}

// enter moves the calling thread into the lab's network.
func enter() error {
	d, err := substrate.OpenDir(netnsDir)
	if err != nil {
		return fmt.Errorf("no lab is up: %w", err)
	}
	f, err := d.Open(netns)
	if err != nil {
		return fmt.Errorf("no lab is up: %w", err)
	}
	defer f.Close()
	fd, ok := f.(interface{ Fd() uintptr })
	if !ok {
		return fmt.Errorf("%s/%s is no open file of this process", netnsDir, netns)
	}
	if err := unix.Setns(int(fd.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", netns, err)
	}
	return nil
}

// Command is a command of this machine to be run within the lab's network.
func (l *Lab) Command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", netns}, args...)...)
}
