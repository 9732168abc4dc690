// Package programs builds the programs of a Kubernetes node with Go and keeps them.
//
// They are kept in a directory per Kubernetes version. Beside each program lies a file with
// its key, which is of everything that it was made from: versions, sums, Go and flags. A
// program whose key is another one is built again. One build runs at a time; who comes
// meanwhile waits for it and finds what it made.
//
// Nothing is optimised. That builds an API server in a third of the time, and it still
// starts in seconds. All programs are built with the same flags, for they share most of
// their packages.
package programs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// program is what it is made from: a package, the module file that says in which versions, and
// a directory of sources, if it is one of ours.
type program struct{ pkg, mod, source string }

var known = map[string]program{
	"coredns":                 {"github.com/coredns/coredns", "coredns.mod", ""},
	"etcd":                    {"go.etcd.io/etcd/server/v3", "go.mod", ""},
	"kube-apiserver":          {"k8s.io/kubernetes/cmd/kube-apiserver", "go.mod", ""},
	"kube-controller-manager": {"k8s.io/kubernetes/cmd/kube-controller-manager", "go.mod", ""},
	"kube-proxy":              {"k8s.io/kubernetes/cmd/kube-proxy", "go.mod", ""},
	"kube-scheduler":          {"k8s.io/kubernetes/cmd/kube-scheduler", "go.mod", ""},
	"kubectl":                 {"k8s.io/kubernetes/cmd/kubectl", "go.mod", ""},
	"kubelet":                 {"k8s.io/kubernetes/cmd/kubelet", "go.mod", ""},
	"pause":                   {"./pause", "go.mod", "pause"},
}

const compilerFlags = "all=-N -l"

// Set is the programs of one version of Kubernetes.
type Set struct {
	Files fs.FS     // module files, sums, and our sources
	Cache string    // a directory of ours
	Log   io.Writer // what is being built

	version string // of Kubernetes
}

var versionRE = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v\S+)(?: // indirect)?$`)

// Open finds out the version. Without a cache directory the user's is taken.
func Open(s Set) (*Set, error) {
	mod, err := fs.ReadFile(s.Files, "go.mod")
	if err != nil {
		return nil, err
	}
	m := versionRE.FindSubmatch(mod)
	if m == nil {
		return nil, errors.New("go.mod names no version of k8s.io/kubernetes")
	}
	s.version = string(m[1])
	if s.Cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		s.Cache = filepath.Join(user, "kaas-k8snode")
	}
	return &s, nil
}

// Names are those of all programs, in order.
func Names() []string {
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *Set) dir() string { return filepath.Join(s.Cache, s.version) }

// Path is where a program is once it is built.
func (s *Set) Path(name string) string { return filepath.Join(s.dir(), name) }

// Missing are those of the named programs that are not built yet.
func (s *Set) Missing(names ...string) ([]string, error) {
	var missing []string
	for _, name := range names {
		if _, ok := known[name]; !ok {
			return nil, fmt.Errorf("no program %q; there are: %s", name, strings.Join(Names(), " "))
		}
		key, err := os.ReadFile(s.Path(name) + ".key")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		want, err := s.key(name)
		if err != nil {
			return nil, err
		}
		if string(key) != want {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// Build builds what is missing of the named programs.
func (s *Set) Build(ctx context.Context, names ...string) error {
	missing, err := s.Missing(names...)
	if err != nil || len(missing) == 0 {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	missing, err = s.Missing(names...) // another one may have built them while we waited
	if err != nil || len(missing) == 0 {
		return err
	}
	module, err := s.module()
	if err != nil {
		return err
	}
	for _, name := range missing {
		if err := s.build(ctx, module, name); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
	}
	return nil
}

func (s *Set) lock() (unlock func(), err error) {
	if err := os.MkdirAll(s.dir(), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(s.dir(), "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		fmt.Fprintln(s.Log, "another build is running and is waited for")
		for err = unix.EINTR; errors.Is(err, unix.EINTR); {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// module lays out a module for Go to build in. So the program needs no source tree where it
// runs.
func (s *Set) module() (string, error) {
	dir := filepath.Join(s.dir(), "module")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.CopyFS(dir, s.Files)
}

func (s *Set) build(ctx context.Context, module, name string) error {
	fmt.Fprintf(s.Log, "building %s, which takes minutes where it has not been built before\n", name)
	key, err := s.key(name)
	if err != nil {
		return err
	}
	keyFile, fresh := s.Path(name)+".key", s.Path(name)+".new"
	if err := os.Remove(keyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	p := known[name]
	cmd := exec.CommandContext(ctx, "go", "build", "-modfile="+p.mod, "-gcflags="+compilerFlags, "-ldflags="+s.linkerFlags(), "-o", fresh, p.pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = s.Log, s.Log
	if err := cmd.Run(); err != nil {
		return err
	}
	if err := os.Rename(fresh, s.Path(name)); err != nil {
		return err
	}
	return os.WriteFile(keyFile, []byte(key), 0o644)
}

// linkerFlags leave out what only a debugger needs, and tell the programs their version:
// clients read it from the API server.
func (s *Set) linkerFlags() string {
	number := strings.Split(strings.TrimPrefix(s.version, "v"), ".")
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s", pkg, s.version, number[0], number[1])
	}
	return flags
}

// key is of everything that a program is made from.
func (s *Set) key(name string) (string, error) {
	p := known[name]
	h := sha256.New()
	fmt.Fprintf(h, "%q", []string{p.pkg, runtime.Version(), runtime.GOARCH, compilerFlags, s.linkerFlags()})
	files := []string{p.mod, strings.TrimSuffix(p.mod, "mod") + "sum"}
	if p.source != "" {
		files = append(files, p.source+"/main.go")
	}
	for _, file := range files {
		b, err := fs.ReadFile(s.Files, file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q", b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
