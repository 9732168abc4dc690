package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/nfslab/lab"
)

// Lab is brokers on hosts of their own, on real NFS: broker N on host N.
type Lab struct {
	lab   *lab.Lab
	cfg   Config
	nodes map[int32]*labNode
	wait  context.CancelFunc
	ctx   context.Context // of waiting for brokers to end
	wg    sync.WaitGroup
}

// labNode is the broker of a host.
type labNode struct {
	mu struct {
		sync.Mutex
		broker *lab.Broker // nil where none runs
	}
}

// labTime is how long one thing in the lab may take.
const labTime = 4 * time.Minute

// NewLab boots the hosts and starts no broker. Of cfg it uses Brokers, Binary, which
// must be built without cgo, Dir for the logs, Sets and Died.
func NewLab(ctx context.Context, cfg Config, opt lab.Options) (*Lab, error) {
	opt.Hosts = cfg.Brokers
	up, err := lab.Up(ctx, opt)
	if err != nil {
		return nil, err
	}
	l := &Lab{lab: up, cfg: cfg, nodes: map[int32]*labNode{}}
	l.ctx, l.wait = context.WithCancel(context.Background())
	for _, id := range l.Nodes() {
		l.nodes[id] = &labNode{}
	}
	return l, nil
}

// Nodes implements Cluster.
func (l *Lab) Nodes() (out []int32) {
	for i := range l.cfg.Brokers {
		out = append(out, int32(i+1))
	}
	return out
}

// Addrs implements Cluster.
func (l *Lab) Addrs() (out []string) {
	for _, id := range l.Nodes() {
		out = append(out, net.JoinHostPort(lab.Addr(int(id)), lab.BrokerPort))
	}
	return out
}

// Dial implements Cluster.
func (l *Lab) Dial() func(context.Context, string, string) (net.Conn, error) {
	return l.lab.DialContext
}

// Start implements Cluster.
func (l *Lab) Start(ctx context.Context) error {
	return l.each(func(id int32) error { return l.Run(ctx, id) })
}

// each does something for every node at once.
func (l *Lab) each(do func(int32) error) error {
	errs := make([]error, l.cfg.Brokers)
	var wg sync.WaitGroup
	for i, id := range l.Nodes() {
		wg.Go(func() { errs[i] = do(id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Run implements Cluster.
func (l *Lab) Run(ctx context.Context, id int32) error {
	n := l.nodes[id]
	if n.get() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, labTime)
	defer cancel()
	var args []string
	for _, s := range l.cfg.Sets {
		args = append(args, "--set", s)
	}
	b, err := l.lab.StartBroker(ctx, int(id), l.cfg.Binary, args...)
	if err != nil {
		return fmt.Errorf("broker %d: %w", id, err)
	}
	n.set(b)
	l.wg.Go(func() { l.watch(id, n, b) })
	return nil
}

// watch tells of a broker that ends by itself. The host's power loss is an error here,
// and no end of the broker.
func (l *Lab) watch(id int32, n *labNode, b *lab.Broker) {
	code, err := b.Wait(l.ctx)
	if err == nil && n.clear(b) && l.cfg.Died != nil {
		l.cfg.Died(id, fmt.Sprintf("exit code %d: %s", code, b.End()))
	}
}

func (n *labNode) get() *lab.Broker {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.broker
}

func (n *labNode) set(b *lab.Broker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.broker = b
}

// clear forgets a broker, and reports whether it was the node's.
func (n *labNode) clear(b *lab.Broker) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.mu.broker == b
	if was {
		n.mu.broker = nil
	}
	return was
}

// end ends the broker of a node, if there is one, and then it is to have ended.
func (l *Lab) end(id int32, how func(*lab.Broker, context.Context) error) error {
	n := l.nodes[id]
	b := n.get()
	if b == nil || !n.clear(b) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), labTime)
	defer cancel()
	return how(b, ctx)
}

// Kill implements Cluster.
func (l *Lab) Kill(id int32) error { return l.end(id, (*lab.Broker).Kill) }

// Terminate implements Cluster.
func (l *Lab) Terminate(id int32) error { return l.end(id, (*lab.Broker).Stop) }

// Pause implements Cluster.
func (l *Lab) Pause(id int32) error { return l.signal(id, syscall.SIGSTOP) }

// Resume implements Cluster.
func (l *Lab) Resume(id int32) error { return l.signal(id, syscall.SIGCONT) }

func (l *Lab) signal(id int32, sig syscall.Signal) error {
	b := l.nodes[id].get()
	if b == nil {
		return fmt.Errorf("broker %d does not run", id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), labTime)
	defer cancel()
	return b.Signal(ctx, sig)
}

var errNotHere = errors.New("not in the lab")

// TakeOver implements Cluster; the lab cannot do it.
func (l *Lab) TakeOver(context.Context, int32) error { return errNotHere }

// AwaitFenced implements Cluster; nothing is taken over.
func (l *Lab) AwaitFenced(int32, time.Duration) error { return nil }

// Fill implements Cluster; the lab cannot do it.
func (l *Lab) Fill() error { return errNotHere }

// Free implements Cluster.
func (l *Lab) Free() error { return nil }

// Stop implements Cluster.
func (l *Lab) Stop() error { return l.each(l.Terminate) }

// Close implements Cluster.
func (l *Lab) Close() {
	l.wait()
	l.wg.Wait()
	l.keepLogs()
	_ = l.lab.Down(context.Background()) // what it leaves the next Up removes
}

// keepLogs copies the logs of brokers and hosts, which go with the lab, into the run's
// directory, as far as that can be done.
func (l *Lab) keepLogs() {
	from, err := substrate.OpenDir(l.lab.Logs())
	if err != nil {
		return
	}
	entries, err := from.List(".")
	if err != nil {
		return
	}
	for _, e := range entries {
		copyFile(from, l.cfg.Dir, e.Name)
	}
}

func copyFile(from, to *substrate.DirFS, name string) {
	f, err := from.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	out, err := to.CreateExclusive(name)
	if err != nil {
		return
	}
	defer out.Close()
	_, _ = io.Copy(io.NewOffsetWriter(out, 0), io.NewSectionReader(f, 0, math.MaxInt64)) // better half a log than none
}

// PauseHost implements Hosts.
func (l *Lab) PauseHost(id int32) error { return l.lab.Host(int(id)).Pause() }

// ResumeHost implements Hosts.
func (l *Lab) ResumeHost(id int32) error { return l.lab.Host(int(id)).Resume() }

// PowerOff implements Hosts.
func (l *Lab) PowerOff(id int32) error {
	l.nodes[id].set(nil)
	return l.lab.Host(int(id)).Kill()
}

// Boot implements Hosts.
func (l *Lab) Boot(ctx context.Context, id int32) error {
	if err := l.lab.Host(int(id)).Boot(ctx); err != nil {
		return err
	}
	return l.Run(ctx, id)
}

// Cut implements Hosts.
func (l *Lab) Cut(id int32) error { return l.lab.Host(int(id)).Cut(context.Background()) }

// Heal implements Hosts.
func (l *Lab) Heal(id int32) error { return l.lab.Host(int(id)).Heal(context.Background()) }

// SetClock implements Clocks.
func (l *Lab) SetClock(id int32, ahead time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), labTime)
	defer cancel()
	return l.lab.Host(int(id)).SetClock(ctx, ahead)
}

// HangServer implements Hosts.
func (l *Lab) HangServer() error { return l.lab.Server().Pause() }

// ResumeServer implements Hosts.
func (l *Lab) ResumeServer() error { return l.lab.Server().Resume() }

// KillServer implements Hosts.
func (l *Lab) KillServer() error { return l.lab.Server().Kill() }

// StartServer implements Hosts.
func (l *Lab) StartServer(ctx context.Context) error { return l.lab.Server().Start(ctx) }

var (
	_ Cluster = (*Lab)(nil)
	_ Hosts   = (*Lab)(nil)
	_ Clocks  = (*Lab)(nil)
	_ Cluster = (*Local)(nil)
)
