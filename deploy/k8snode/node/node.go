// Package node runs a whole Kubernetes node, shut off from the machine it is on.
//
// # Namespaces
//
// Everything runs in new namespaces of processes, mounts, networks, host names and control
// groups, below one process that is the first in its process namespace. When that one ends, by
// whatever cause, the kernel ends all others, and with them go their mounts, devices, routes
// and packet filters. Outside there are left only a directory and empty control groups, which
// Down removes. What could be left by half an Up goes by a name that is made from the
// directory's, so that Down finds it.
//
// # Addresses
//
// N is the first number that is free on the machine:
//
//	10.201.N.0/30   a pair of devices: the machine is .1, the node .2
//	10.202.N.0/24   pods
//	10.203.N.0/24   Services; .1 is the API server, .10 the DNS
//	10.204.N.0/24   Services of type LoadBalancer
//
// The machine has routes to all of them through the node, so that it reaches pods, Services
// and node ports. Nothing leads from the node to the world.
//
// # The directory
//
// As package control has it, and:
//
//	kaas-k8snode    says that the directory is ours, to be removed whole; holds N
//	node.pid        the first process, and when it began; while there is a node
//	node.log        what the processes in between say
//	etc/            configurations of containerd, the kubelet, CNI and CoreDNS
//	var/            what is /var/lib and /var/log inside
//	volumes/        of PersistentVolumes, a directory each
package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	marker    = "kaas-k8snode"
	nodeName  = "node"
	pauseName = "kaas.dev/pause:1"

	// pids is the directory of the programs' pids, inside, which are no pids outside.
	pids = "/run/k8snode"
)

// Node is one of the machine, known by its directory.
type Node struct {
	Dir    string
	Number int // N of the addresses
}

func (n *Node) path(elem ...string) string {
	return filepath.Join(append([]string{n.Dir}, elem...)...)
}

// id tells this node from others in the names of what it has outside of its namespaces.
func (n *Node) id() string {
	s := sha256.Sum256([]byte(n.Dir))
	return hex.EncodeToString(s[:4])
}

func (n *Node) outerLink() string { return "k8s-" + n.id() }
func (n *Node) innerLink() string { return "k8i-" + n.id() } // until it is inside
func (n *Node) cgroup() string    { return marker + "-" + n.id() }

func (n *Node) address(block, last int) string {
	return fmt.Sprintf("10.%d.%d.%d", block, n.Number, last)
}

func (n *Node) outerIP() string   { return n.address(201, 1) }
func (n *Node) innerIP() string   { return n.address(201, 2) }
func (n *Node) dnsIP() string     { return n.address(203, 10) }
func (n *Node) pods() string      { return n.address(202, 0) + "/24" }
func (n *Node) services() string  { return n.address(203, 0) + "/24" }
func (n *Node) balancers() string { return n.address(204, 0) + "/24" }

// At is the node of a directory, whether it runs or not.
func At(dir string) (*Node, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	n := &Node{Dir: dir}
	b, err := os.ReadFile(n.path(marker))
	if err != nil {
		return nil, fmt.Errorf("no node was ever up in %s: %w", dir, err)
	}
	n.Number, err = strconv.Atoi(strings.TrimSpace(string(b)))
	return n, err
}

// claim makes the directory ours. One that holds something is not taken.
func (n *Node) claim() error {
	for _, taken := range []string{"/run", "/var/lib", "/var/log", "/proc", "/sys", "/dev"} { // others are mounted there inside
		if n.Dir == taken || strings.HasPrefix(n.Dir, taken+"/") {
			return fmt.Errorf("the directory cannot be below %s", taken)
		}
	}
	if err := os.MkdirAll(n.Dir, 0o755); err != nil {
		return err
	}
	found, err := os.ReadDir(n.Dir)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%s is not empty: if a node was up there, end it with down", n.Dir)
	}
	return n.mark()
}

func (n *Node) mark() error {
	return os.WriteFile(n.path(marker), []byte(strconv.Itoa(n.Number)+"\n"), 0o644)
}

// started is when a process began, in the kernel's own measure, which tells it from a later
// process with the same number.
func started(pid int) (string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name of the program may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "", errors.New("the kernel does not say when the process began")
	}
	return fields[19], nil
}

// PID is that of the first process of a running node, or 0.
func (n *Node) PID() int {
	b, err := os.ReadFile(n.path("node.pid"))
	if err != nil {
		return 0
	}
	var pid int
	var since string
	if _, err := fmt.Sscan(string(b), &pid, &since); err != nil {
		return 0
	}
	if now, err := started(pid); err != nil || now != since {
		return 0
	}
	return pid
}

func (n *Node) writePID(pid int) error {
	since, err := started(pid)
	if err != nil {
		return err
	}
	fresh := n.path("node.pid.new")
	if err := os.WriteFile(fresh, fmt.Appendf(nil, "%d %s\n", pid, since), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, n.path("node.pid"))
}
