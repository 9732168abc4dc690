package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const numbers = 200 // of nodes that one machine can have

// takeNumber finds a number whose addresses nobody has. Others who look for one wait until
// unlock, by which time ours has its address.
func (n *Node) takeNumber() (unlock func(), err error) {
	f, err := os.OpenFile("/run/"+marker+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	unlock = sync.OnceFunc(func() { f.Close() })
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err == nil {
		err = n.chooseNumber()
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, n.mark()
}

func (n *Node) chooseNumber() error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok {
			taken[ip.IP.String()] = true
		}
	}
	for n.Number = range numbers {
		if !taken[n.outerIP()] {
			return nil
		}
	}
	return fmt.Errorf("all %d numbers for nodes are taken", numbers)
}

func (n *Node) makeLink(ctx context.Context) error {
	return ip(ctx,
		[]string{"link", "add", n.outerLink(), "type", "veth", "peer", "name", n.innerLink()},
		[]string{"addr", "add", n.outerIP() + "/30", "dev", n.outerLink()},
		[]string{"link", "set", n.outerLink(), "up"},
	)
}

// moveLink puts one end into the namespace of a process, and leads there what is for the node.
func (n *Node) moveLink(ctx context.Context, pid int) error {
	commands := [][]string{{"link", "set", n.innerLink(), "netns", strconv.Itoa(pid)}}
	for _, to := range []string{n.pods(), n.services(), n.balancers()} {
		// Through a device that is down nothing is led: the other end comes up inside.
		commands = append(commands, []string{"route", "add", to, "via", n.innerIP(), "dev", n.outerLink(), "onlink"})
	}
	return ip(ctx, commands...)
}

// furnishNetwork is done inside.
func (n *Node) furnishNetwork(ctx context.Context) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	return ip(ctx,
		[]string{"link", "set", "lo", "up"},
		[]string{"link", "set", n.innerLink(), "name", "eth0"},
		[]string{"addr", "add", n.innerIP() + "/30", "dev", "eth0"},
		[]string{"link", "set", "eth0", "up"},
		[]string{"route", "add", "default", "via", n.outerIP()},
	)
}

// removeLink removes both ends and the routes, wherever they are. They may have gone already
// with the node, or go at this moment.
func (n *Node) removeLink(ctx context.Context) error {
	err := ip(ctx, []string{"link", "del", n.outerLink()})
	if _, gone := net.InterfaceByName(n.outerLink()); gone != nil {
		return nil
	}
	return err
}

func ip(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out))
	}
	return nil
}
