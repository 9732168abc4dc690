package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kaas.dev/kaas/internal/substrate"
)

// Options of a lab. The zero value is three hosts with the kernel's default mount
// options on nfs-ganesha.
type Options struct {
	Hosts int    // 3 unless given
	MemMB int    // of each host, 1024 unless given
	Mount string // further mount options, such as "acregmin=0,lookupcache=positive"
	// Kernel has the kernel's NFS server, delegations on, in a host of its own. Its
	// Kill is a power loss of the server: what was not synced is gone.
	Kernel  bool
	ImageMB int    // of the kernel server's ext4 image, 4096 unless given; it is sparse
	Dir     string // the lab's directory is made in it; the system's temporary one unless given
	// Detach lets the lab outlive this process. Otherwise the next Up takes the lab
	// for left behind as soon as this process is gone.
	Detach bool
}

// state is what is on record of the lab as a whole.
type state struct {
	Options
	Dir   string  `json:"labDir"`
	Owner process `json:"owner"` // ended: the lab is left behind, unless Up was done and Detach
	Ready bool    `json:"ready"`
}

// Lab is a lab that is up. Its methods may be called from several goroutines, but for
// Down.
type Lab struct {
	st       state
	hosts    []*Host // host 0 first; nil without a kernel server
	client   *http.Client
	children sync.WaitGroup // processes of ours that have not been waited for
}

// Up makes a lab and returns when every host has mounted the volume. What an earlier
// run left is removed first; if Up fails, so is what it has made.
func Up(ctx context.Context, opt Options) (*Lab, error) {
	opt = opt.withDefaults()
	if err := Missing(opt.Kernel); err != nil {
		return nil, err
	}
	if err := clear(ctx); err != nil {
		return nil, err
	}
	owner, err := this()
	if err != nil {
		return nil, err
	}
	l := newLab(state{Options: opt, Dir: filepath.Join(opt.Dir, "kaas-nfslab"), Owner: owner})
	if err := l.up(ctx); err != nil {
		// ctx may be over, but what was made must go.
		return nil, errors.Join(fmt.Errorf("nfslab up: %w", err), l.Down(context.WithoutCancel(ctx)))
	}
	return l, nil
}

// Open finds the lab that is up.
func Open() (*Lab, error) {
	var st state
	err := recorded("state", &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("no lab is up: run `nfslab up`")
	}
	return newLab(st), err
}

func (o Options) withDefaults() Options {
	if o.Hosts == 0 {
		o.Hosts = 3
	}
	if o.MemMB == 0 {
		o.MemMB = 1024
	}
	if o.ImageMB == 0 {
		o.ImageMB = 4096
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	return o
}

func newLab(st state) *Lab {
	l := &Lab{st: st, hosts: make([]*Host, st.Hosts+1)}
	l.client = &http.Client{Transport: &http.Transport{DialContext: l.DialContext, DisableKeepAlives: true}}
	for n := range l.hosts {
		if n > 0 || st.Kernel {
			l.hosts[n] = newHost(l, n)
		}
	}
	return l
}

// clear removes what a run that is gone has left, and refuses if it is not gone.
func clear(ctx context.Context) error {
	l, err := Open()
	switch {
	case err == nil && l.st.alive():
		return fmt.Errorf("a lab is up already, in %s, and a machine has only one: run `nfslab down` first", l.st.Dir)
	case err == nil:
		return l.Down(ctx)
	}
	return (&Lab{}).Down(ctx)
}

// alive says whether somebody may still want the lab.
func (st state) alive() bool {
	if st.Owner.alive() {
		return true
	}
	if !st.Detach || !st.Ready {
		return false
	}
	for n := range st.Hosts + 1 {
		if _, err := running(hostName(n)); err == nil {
			return true
		}
	}
	return false
}

func (l *Lab) up(ctx context.Context) error {
	if err := record("state", l.st); err != nil {
		return err
	}
	if err := removeAll(l.st.Dir); err != nil { // a reboot has left it
		return err
	}
	for _, dir := range []string{"logs", "bin", "run", "export"} {
		if _, err := substrate.MakeDir(filepath.Join(l.st.Dir, dir)); err != nil {
			return err
		}
	}
	if err := build(ctx, "kaas.dev/kaas/tools/nfslab/guest", l.guest()); err != nil {
		return err
	}
	var taps []int
	for n, h := range l.hosts {
		if h != nil {
			taps = append(taps, n)
		}
	}
	if err := makeNetwork(ctx, taps); err != nil {
		return err
	}
	if err := l.Server().Start(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, h := range l.hosts[1:] {
		g.Go(func() error { return h.Boot(gctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	l.st.Ready = true
	return record("state", l.st)
}

// Down ends all that runs in the lab and removes all that it made.
func (l *Lab) Down(ctx context.Context) error {
	var errs []error
	for _, h := range l.hosts {
		if h != nil {
			errs = append(errs, h.Kill())
		}
	}
	errs = append(errs, endRecorded(ctx, ganesha), removeNetwork(ctx))
	if d, err := substrate.OpenDir("/run"); err == nil {
		_ = d.Remove(ganesha) // ganesha makes it whatever it is told; not empty, it is somebody else's
	}
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
	l.children.Wait()
	if l.st.Dir != "" {
		errs = append(errs, removeAll(l.st.Dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("nfslab down: %w", err) // the record stays, for the next try
	}
	return removeAll(runDir)
}

func endRecorded(ctx context.Context, name string) error {
	var p process
	if err := recorded(name, &p); err != nil {
		return nil // nothing was started
	}
	if err := p.end(ctx); err != nil {
		return err
	}
	return forget(name)
}

// Hosts is how many hosts there are, but for a kernel server's.
func (l *Lab) Hosts() int { return l.st.Hosts }

// Host is the n-th host, from 1 to Hosts.
func (l *Lab) Host(n int) *Host { return l.hosts[n] }

// Lookup is Host for a number that somebody typed.
func (l *Lab) Lookup(n int) (*Host, error) {
	if n < 1 || n > l.st.Hosts {
		return nil, fmt.Errorf("there is no host %d: hosts are 1 to %d", n, l.st.Hosts)
	}
	return l.hosts[n], nil
}

// Kernel says whether the server is a kernel's.
func (l *Lab) Kernel() bool { return l.st.Kernel }

// Server is the NFS server.
func (l *Lab) Server() *Server { return &Server{l} }

// Dir is the lab's directory, gone with it.
func (l *Lab) Dir() string { return l.st.Dir }

// Logs is the directory of all logs, gone with the lab.
func (l *Lab) Logs() string { return filepath.Join(l.st.Dir, "logs") }

// Export is the volume as this machine sees it beneath ganesha. Nothing may be
// changed there. With a kernel server it is empty.
func (l *Lab) Export() string { return filepath.Join(l.st.Dir, "export") }

func (l *Lab) guest() string { return filepath.Join(l.st.Dir, "bin", "guest") }

func (l *Lab) run(name string) string { return filepath.Join(l.st.Dir, "run", name) }

func (l *Lab) log(name string) string { return filepath.Join(l.Logs(), name+".log") }

// Build makes a static binary of a package in the lab's directory, where the hosts
// can run it, and returns its path.
func (l *Lab) Build(ctx context.Context, pkg string) (string, error) {
	bin := filepath.Join(l.st.Dir, "bin", filepath.Base(pkg))
	return bin, build(ctx, pkg, bin)
}

func build(ctx context.Context, pkg, bin string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %s", pkg, err, out)
	}
	return nil
}
