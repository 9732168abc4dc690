package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"
)

// clusterKind is a server of which several processes form a cluster.
type clusterKind interface {
	name() string
	// prepare makes what a node needs before its first start.
	prepare(ctx context.Context, f *fleet, n *node) error
	command(f *fleet, n *node) (program string, args []string)
	// topic is how a topic is made to survive the loss of a broker.
	topic() (replicas int16, configs map[string]*string)
	controller(ctx context.Context, ask kmsg.Requestor) (int32, error)
	// even asks for leaders to be spread again, where that does not happen by itself.
	even(ctx context.Context, adm *kadm.Client) error
}

// fleet is a cluster of processes that this run has started. A node keeps its
// addresses and its directory when it is started again.
type fleet struct {
	kind    clusterKind
	scratch *scratch
	dir     string // within the scratch directory
	nodes   []*node
}

// node is one broker, whether it runs or not.
type node struct {
	id      int32
	addr    string
	second  string      // address of what it listens on besides
	client  *kgo.Client // knows this broker alone
	running *process
}

// newFleet prepares a cluster and starts nothing.
func newFleet(ctx context.Context, kind clusterKind, s *scratch, dir string, size int) (*fleet, error) {
	f := &fleet{kind: kind, scratch: s, dir: dir}
	addrs, err := steadyAddrs(2 * size)
	if err != nil {
		return nil, err
	}
	for i := range size {
		n := &node{id: int32(i + 1), addr: addrs[2*i], second: addrs[2*i+1]}
		n.client, err = kgo.NewClient(kgo.SeedBrokers(n.addr), kgo.ClientID("kaas-bench"), kgo.DialTimeout(time.Second))
		if err != nil {
			f.close()
			return nil, fmt.Errorf("client of %s: %w", n.addr, err)
		}
		f.nodes = append(f.nodes, n)
	}
	err = f.each(func(n *node) error { return kind.prepare(ctx, f, n) })
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// each does something with all nodes at once.
func (f *fleet) each(do func(*node) error) error {
	var g errgroup.Group
	for _, n := range f.nodes {
		g.Go(func() error { return do(n) })
	}
	return g.Wait()
}

// start starts all nodes, and returns after how long each of them named all.
func (f *fleet) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := f.each(func(n *node) error {
		if err := f.startNode(ctx, n); err != nil {
			return err
		}
		return f.awaitMembers(ctx, n)
	})
	return time.Since(began), err
}

func (f *fleet) startNode(ctx context.Context, n *node) (err error) {
	program, args := f.kind.command(f, n)
	if n.running, err = spawn(ctx, n.addr, program, args...); err != nil {
		return fmt.Errorf("%s, node %d: %w", f.kind.name(), n.id, err)
	}
	return nil
}

// awaitMembers waits until a node's metadata names every node.
func (f *fleet) awaitMembers(ctx context.Context, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, mostStart)
	defer cancel()
	named := 0
	until(ctx, 2*time.Millisecond, func() bool {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = []kmsg.MetadataRequestTopic{} // none; nil is all
		resp, err := req.RequestWith(ctx, n.ask())
		if err == nil {
			named = len(resp.Brokers)
		}
		return named == len(f.nodes)
	})
	if named != len(f.nodes) {
		return fmt.Errorf("%s, node %d names %d of %d brokers; it said last:\n%s", f.kind.name(), n.id, named, len(f.nodes), n.running.Said())
	}
	return nil
}

// ask is for requests that this node is to answer, once and without trying again.
func (n *node) ask() *kgo.Broker { return n.client.SeedBrokers()[0] }

// signal sends a signal and returns when it was sent.
func (n *node) signal(sig syscall.Signal) (time.Time, error) {
	now := time.Now()
	return now, n.running.Signal(sig)
}

// node is the node with an ID.
func (f *fleet) node(id int32) *node {
	for _, n := range f.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// other is a running node that is not the given one.
func (f *fleet) other(id int32) *node {
	for _, n := range f.nodes {
		if n.id != id && n.running != nil {
			return n
		}
	}
	return nil
}

func (f *fleet) addrs() []string {
	var addrs []string
	for _, n := range f.nodes {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

// admin does something with a client of the whole cluster.
func (f *fleet) admin(do func(*kadm.Client) error, opts ...kgo.Opt) error {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.addrs()...), kgo.AlwaysRetryEOF(), kgo.ClientID("kaas-bench")}, opts...)...)
	if err != nil {
		return fmt.Errorf("client of %s: %w", f.kind.name(), err)
	}
	defer cl.Close()
	return do(kadm.NewClient(cl))
}

// stop ends all running nodes in order.
func (f *fleet) stop() {
	_ = f.each(func(n *node) error {
		if n.running != nil {
			n.running.stop()
			n.running = nil
		}
		return nil
	})
}

// kill ends all running nodes at once: their directories are of no more use.
func (f *fleet) kill() {
	for _, n := range f.nodes {
		if n.running != nil {
			_, _ = n.signal(syscall.SIGKILL)
		}
	}
	f.stop()
}

// close kills what runs, and removes the directories.
func (f *fleet) close() error {
	f.kill()
	for _, n := range f.nodes {
		n.client.Close()
	}
	return f.scratch.remove(f.dir)
}

// A broker that is started again needs its port again. So ports are taken from
// below those that the kernel gives to outgoing connections: a client that keeps
// dialing a dead broker could be given the broker's own port, and meet itself.
const (
	leastPort = 20_000
	mostPort  = 32_000
)

// steadyAddrs are addresses on loopback that nobody listened on a moment ago.
func steadyAddrs(n int) ([]string, error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	var addrs []string
	for range 100 * n {
		port := leastPort + rand.IntN(mostPort-leastPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		held, addrs = append(held, l), append(addrs, l.Addr().String())
		if len(addrs) == n {
			return addrs, nil
		}
	}
	return nil, errors.New("no free ports")
}
