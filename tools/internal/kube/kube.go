// Package kube has the API server of a Kubernetes for the tools, and troubles it: it is
// stopped, killed, and given back what it knew earlier. Clients reach it by a [Way] each,
// which can be slow, or lead nowhere. It is made by deploy/k8snode.
package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/tools/internal/child"
)

// Server is an API server and its etcd. Its methods are called one at a time; those of a Way
// at any time.
type Server struct {
	dir  *substrate.DirFS
	bin  string
	log  io.Writer
	ways []*Way
	proc *child.Process
	conf *api.Config

	mu     sync.Mutex
	target string // where the API server listens
}

const (
	startTime = 4 * time.Minute
	endTime   = 30 * time.Second
	data      = "etcd"
	kept      = "etcd.kept"
)

// Start builds k8snode and starts an API server in a directory of its own; log takes what
// k8snode says.
func Start(ctx context.Context, dir *substrate.DirFS, log io.Writer) (*Server, error) {
	s := &Server{dir: dir, bin: filepath.Join(dir.Root(), "k8snode"), log: log}
	if err := Build(ctx, s.bin, "k8snode", "."); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// Deploy is the path of what is in the directory deploy.
func Deploy(ctx context.Context, name ...string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "kaas.dev/kaas").Output()
	if err != nil {
		return "", fmt.Errorf("find this module: %w", err)
	}
	return filepath.Join(append([]string{strings.TrimSpace(string(root)), "deploy"}, name...)...), nil
}

// Build builds a program of a module in the directory deploy.
func Build(ctx context.Context, bin, module, pkg string) error {
	dir, err := Deploy(ctx, module)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s of deploy/%s: %w\n%s", pkg, module, err, out)
	}
	return nil
}

// start starts k8snode on what the directory has, and returns when the API answers.
func (s *Server) start(ctx context.Context) (err error) {
	told := &line{want: []byte("ready\n"), seen: make(chan struct{})}
	s.proc, err = child.Start(child.Options{Command: s.bin, Args: []string{"api", "--dir", s.dir.Root()}, Held: true, Log: io.MultiWriter(told, s.log)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case <-told.seen:
	case <-s.proc.Ended():
		return fmt.Errorf("k8snode ended: %s\n%s", s.proc.State(), s.proc.Said())
	case <-ctx.Done():
		return fmt.Errorf("k8snode is not ready: %w\n%s", ctx.Err(), s.proc.Said())
	}
	if s.conf, err = clientcmd.LoadFromFile(filepath.Join(s.dir.Root(), "kubeconfig")); err != nil {
		return err
	}
	for _, c := range s.conf.Clusters {
		u, err := url.Parse(c.Server)
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.target = u.Host
		s.mu.Unlock()
	}
	return nil
}

func (s *Server) where() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.target
}

func (s *Server) end() {
	if s.proc != nil {
		s.proc.End(syscall.SIGTERM, endTime)
	}
}

// Close ends the server and the ways to it.
func (s *Server) Close() {
	for _, w := range s.ways {
		w.Close()
	}
	s.end()
}

// Pause and Resume are SIGSTOP and SIGCONT of the API server.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume implements API of tools/kaas-check/cluster.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

// Kill is SIGKILL of the API server. It returns when the next one answers.
func (s *Server) Kill(ctx context.Context) error {
	if err := s.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return s.Await(ctx)
}

func (s *Server) signal(sig syscall.Signal) error {
	v := substrate.Volume{FS: s.dir}
	b, err := v.ReadFile("kube-apiserver.pid")
	if err != nil {
		return fmt.Errorf("the API server does not run: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, sig)
}

// Keep stops everything, keeps a copy of what etcd has, and starts again.
func (s *Server) Keep(ctx context.Context) error {
	return s.between(ctx, "cp", "-a", filepath.Join(s.dir.Root(), data), filepath.Join(s.dir.Root(), kept))
}

// Restore stops everything, gives etcd what it had at Keep, and starts again.
func (s *Server) Restore(ctx context.Context) error {
	script := `set -e; test -d "$1/$3"; rm -r "$1/$2"; cp -a "$1/$3" "$1/$2"`
	return s.between(ctx, "sh", "-c", script, "sh", s.dir.Root(), data, kept)
}

func (s *Server) between(ctx context.Context, command string, args ...string) error {
	s.end()
	if out, err := exec.CommandContext(ctx, command, args...).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("what etcd has: %w\n%s", err, out), s.start(ctx))
	}
	return s.start(ctx)
}

// Await returns when the API server answers.
func (s *Server) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.leases(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the API server does not answer: %w", err)
		}
	}
}

// leases reaches those of the namespace default, having seen that they can be listed.
func (s *Server) leases(ctx context.Context) (coordination.LeaseInterface, error) {
	c, err := clientcmd.NewDefaultClientConfig(*s.conf, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	c.NextProtos, c.Timeout = []string{"http/1.1"}, 10*time.Second
	client, err := coordination.NewForConfig(c)
	if err != nil {
		return nil, err
	}
	l := client.Leases("default")
	_, err = l.List(ctx, metav1.ListOptions{})
	return l, err
}

// DeleteLease deletes a Lease of the namespace default.
func (s *Server) DeleteLease(ctx context.Context, name string) error {
	l, err := s.leases(ctx)
	if err != nil {
		return err
	}
	return l.Delete(ctx, name, metav1.DeleteOptions{})
}

// Lease tells who holds a Lease of the namespace default, and how often it changed hands.
func (s *Server) Lease(ctx context.Context, name string) (holder string, transitions int32, err error) {
	l, err := s.leases(ctx)
	if err != nil {
		return "", 0, err
	}
	lease, err := l.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", 0, err
	}
	if h := lease.Spec.HolderIdentity; h != nil {
		holder = *h
	}
	if n := lease.Spec.LeaseTransitions; n != nil {
		transitions = *n
	}
	return holder, transitions, nil
}

// AwaitRenewal returns when a Lease of the namespace default has been renewed since the call.
func (s *Server) AwaitRenewal(ctx context.Context, name string) error {
	l, err := s.leases(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for first := ""; ; {
		lease, err := l.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case first == "":
			first = lease.ResourceVersion
		case first != lease.ResourceVersion:
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("lease %s is not renewed: %w", name, ctx.Err())
		}
	}
}

// line is a writer that waits for words.
type line struct {
	mu   sync.Mutex
	got  []byte
	want []byte
	seen chan struct{}
	once sync.Once
}

func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, b...)
	if bytes.HasPrefix(l.got, l.want) || bytes.Contains(l.got, append([]byte("\n"), l.want...)) {
		l.once.Do(func() { close(l.seen) })
	}
	return len(b), nil
}

// KUBECONFIG is the setting of the environment that has a process go a Way.
func (w *Way) KUBECONFIG() string { return "KUBECONFIG=" + w.Kubeconfig }

var _ io.Writer = (*line)(nil)
