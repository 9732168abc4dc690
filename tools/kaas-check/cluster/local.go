package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/child"
)

// Config is what a Local is made of.
type Config struct {
	Brokers int
	Binary  string
	Dir     *substrate.DirFS // the run's own directory; the volume is data in it
	Sets    []string         // key=value, of every broker
	Env     []string
	EnvOf   func(node int32) []string // of one broker besides, or nil
	Small   bool                      // the volume is a file system of its own, small enough to be filled
	// Died is called when a process ends that nobody ended.
	Died func(node int32, state string)
}

// Local is brokers on loopback.
type Local struct {
	cfg   Config
	nodes map[int32]*node
	mount string // where a small volume is mounted
	fill  string // the file that fills it
}

// node is one node.id. Its processes take turns at two addresses.
type node struct {
	id    int32
	addrs [2]string
	log   *appender
	mu    struct {
		sync.Mutex
		turn    int // of addrs, of the current process
		current *child.Process
		earlier *child.Process // that was taken over from
		fenced  bool           // earlier is expected to end by itself
	}
}

const (
	dataDir   = "data"
	smallMB   = 160
	startTime = 3 * time.Minute
	stopTime  = 2 * time.Minute // others take over first what it leads
	fencedSay = "exit status 3"
)

// NewLocal makes the places of the brokers and starts none.
func NewLocal(cfg Config) (*Local, error) {
	l := &Local{cfg: cfg, nodes: map[int32]*node{}}
	if err := cfg.Dir.Mkdir(dataDir); err != nil {
		return nil, fmt.Errorf("make the volume: %w", err)
	}
	for i := range cfg.Brokers {
		n := &node{id: int32(i + 1)}
		for j := range n.addrs {
			var err error
			if n.addrs[j], err = child.FreeAddr(); err != nil {
				return nil, err
			}
		}
		f, err := cfg.Dir.CreateExclusive(fmt.Sprintf("broker-%d.log", n.id))
		if err != nil {
			return nil, err
		}
		n.log = &appender{f: f}
		l.nodes[n.id] = n
	}
	if cfg.Small {
		return l, l.mountSmall()
	}
	return l, nil
}

// mountSmall mounts a file system in memory, which takes root.
func (l *Local) mountSmall() error {
	dir := l.volume()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm", smallMB), "kaas-check", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount a small file system, which only root can (leave the fault \"full\" out otherwise): %w: %s", err, out)
	}
	l.mount = dir
	return nil
}

func (l *Local) volume() string { return filepath.Join(l.cfg.Dir.Root(), dataDir) }

// Nodes implements Cluster.
func (l *Local) Nodes() (out []int32) {
	for i := range l.cfg.Brokers {
		out = append(out, int32(i+1))
	}
	return out
}

// Addrs implements Cluster.
func (l *Local) Addrs() (out []string) {
	for _, id := range l.Nodes() {
		out = append(out, l.nodes[id].addrs[:]...)
	}
	return out
}

// Dial implements Cluster.
func (l *Local) Dial() func(context.Context, string, string) (net.Conn, error) { return nil }

// Start implements Cluster.
func (l *Local) Start(ctx context.Context) error {
	errs := make([]error, l.cfg.Brokers)
	var wg sync.WaitGroup
	for i, id := range l.Nodes() {
		wg.Go(func() { errs[i] = l.Run(ctx, id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Run implements Cluster.
func (l *Local) Run(ctx context.Context, id int32) error {
	n := l.nodes[id]
	n.mu.Lock()
	turn, running := n.mu.turn, n.mu.current != nil && n.mu.current.Running()
	n.mu.Unlock()
	if running {
		return nil
	}
	return l.spawn(ctx, n, turn)
}

// spawn starts a process at one of the node's addresses and makes it the current one.
func (l *Local) spawn(ctx context.Context, n *node, turn int) error {
	sets := append([]string{
		fmt.Sprintf("node.id=%d", n.id), "listeners=PLAINTEXT://" + n.addrs[turn], "log.dirs=" + l.volume(), "http.listeners=127.0.0.1:0",
	}, l.cfg.Sets...)
	var args []string
	for _, s := range sets {
		args = append(args, "--set", s)
	}
	env := l.cfg.Env
	if l.cfg.EnvOf != nil {
		env = append(slices.Clone(env), l.cfg.EnvOf(n.id)...)
	}
	p, err := child.Start(child.Options{
		Command: l.cfg.Binary, Args: args, Env: env, Log: n.log,
		Died: func(p *child.Process) { l.died(n, p) },
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.mu.current, n.mu.turn = p, turn
	n.mu.Unlock()
	if err := p.AwaitAnswer(ctx, n.addrs[turn], startTime); err != nil {
		return fmt.Errorf("broker %d: %w; it said last:\n%s", n.id, err, p.Said())
	}
	return nil
}

// died tells of a process that ended by itself, unless it was to.
func (l *Local) died(n *node, p *child.Process) {
	n.mu.Lock()
	expected := p == n.mu.earlier && n.mu.fenced && p.State() == fencedSay
	n.mu.Unlock()
	if !expected && l.cfg.Died != nil {
		l.cfg.Died(n.id, p.State())
	}
}

func (n *node) process() *child.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.current
}

// Kill implements Cluster.
func (l *Local) Kill(id int32) error {
	if p := l.nodes[id].process(); p != nil {
		p.End(syscall.SIGKILL, stopTime)
	}
	return nil
}

// Terminate implements Cluster.
func (l *Local) Terminate(id int32) error {
	p := l.nodes[id].process()
	if p == nil || !p.Running() {
		return nil
	}
	if state := p.End(syscall.SIGTERM, stopTime); state != "exit status 0" {
		return fmt.Errorf("broker %d, asked to stop, ended with %s", id, state)
	}
	return nil
}

// Pause implements Cluster.
func (l *Local) Pause(id int32) error { return l.signal(id, syscall.SIGSTOP) }

// Resume implements Cluster. It resumes both processes of the node.
func (l *Local) Resume(id int32) error {
	n := l.nodes[id]
	n.mu.Lock()
	earlier := n.mu.earlier
	n.mu.Unlock()
	if earlier != nil {
		_ = earlier.Signal(syscall.SIGCONT) // an error says that it is gone
	}
	return l.signal(id, syscall.SIGCONT)
}

func (l *Local) signal(id int32, sig syscall.Signal) error {
	p := l.nodes[id].process()
	if p == nil || !p.Running() {
		return fmt.Errorf("broker %d does not run", id)
	}
	return p.Signal(sig)
}

// TakeOver implements Cluster.
func (l *Local) TakeOver(ctx context.Context, id int32) error {
	n := l.nodes[id]
	n.mu.Lock()
	if n.mu.earlier != nil && n.mu.earlier.Running() {
		n.mu.Unlock()
		return fmt.Errorf("broker %d: the process before last still runs", id)
	}
	n.mu.earlier, n.mu.fenced = n.mu.current, true
	turn := 1 - n.mu.turn
	n.mu.Unlock()
	return l.spawn(ctx, n, turn)
}

// AwaitFenced implements Cluster. A process that is not fenced in time is killed.
func (l *Local) AwaitFenced(id int32, most time.Duration) error {
	n := l.nodes[id]
	n.mu.Lock()
	p := n.mu.earlier
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-p.Ended():
	case <-timer.C:
		p.End(syscall.SIGKILL, stopTime)
		return fmt.Errorf("broker %d: the earlier process did not end within %v of its being taken over", id, most)
	}
	if p.State() != fencedSay {
		return fmt.Errorf("broker %d: the earlier process ended with %s, not %s", id, p.State(), fencedSay)
	}
	return nil
}

// Stop implements Cluster.
func (l *Local) Stop() error {
	errs := make([]error, l.cfg.Brokers)
	var wg sync.WaitGroup
	for i, id := range l.Nodes() {
		wg.Go(func() { errs[i] = l.Terminate(id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close implements Cluster.
func (l *Local) Close() {
	for _, n := range l.nodes {
		n.mu.Lock()
		ps := []*child.Process{n.mu.current, n.mu.earlier}
		n.mu.Unlock()
		for _, p := range ps {
			if p != nil {
				p.End(syscall.SIGKILL, stopTime)
			}
		}
		n.log.f.Close()
	}
	if l.mount != "" {
		_ = exec.Command("umount", l.mount).Run() // left where somebody still looks into it
	}
}

// Fill implements Cluster: a file takes all that is free.
func (l *Local) Fill() error {
	if l.mount == "" {
		return errors.New("the volume is not small: it is not to be filled")
	}
	d, err := substrate.OpenDir(l.mount)
	if err != nil {
		return err
	}
	f, err := d.CreateExclusive(fillName)
	if err != nil {
		return err
	}
	defer f.Close()
	l.fill = fillName
	chunk := make([]byte, 64<<10)
	for at := int64(0); ; at += int64(len(chunk)) {
		n, err := f.WriteAt(chunk, at)
		if errors.Is(err, syscall.ENOSPC) || err == nil && n < len(chunk) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

const fillName = "filler"

// Free implements Cluster.
func (l *Local) Free() error {
	if l.fill == "" {
		return nil
	}
	d, err := substrate.OpenDir(l.mount)
	if err == nil {
		err = d.Remove(l.fill)
	}
	if err == nil {
		l.fill = ""
	}
	return err
}

// appender writes to the end of a file that is open.
type appender struct {
	mu sync.Mutex
	f  substrate.File
	at int64
}

var _ io.Writer = (*appender)(nil)

func (a *appender) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.f.WriteAt(b, a.at)
	a.at += int64(n)
	return n, err
}
