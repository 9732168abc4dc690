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
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// packages are the programs by name.
var packages = map[string]string{
	"etcd":                    "go.etcd.io/etcd/server/v3",
	"kube-apiserver":          "k8s.io/kubernetes/cmd/kube-apiserver",
	"kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
	"kube-proxy":              "k8s.io/kubernetes/cmd/kube-proxy",
	"kube-scheduler":          "k8s.io/kubernetes/cmd/kube-scheduler",
	"kubelet":                 "k8s.io/kubernetes/cmd/kubelet",
}

const compilerFlags = "all=-N -l"

// Set is the programs of one go.mod.
type Set struct {
	Mod, Sum []byte    // go.mod and go.sum
	Cache    string    // a directory of ours
	Log      io.Writer // what is being built

	version string // of Kubernetes
}

var versionRE = regexp.MustCompile(`(?m)^\s*(?:require )?k8s\.io/kubernetes (v\S+)$`)

// Open finds out the version. Without a cache directory the user's is taken.
func Open(s Set) (*Set, error) {
	m := versionRE.FindSubmatch(s.Mod)
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
	for name := range packages {
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
		if packages[name] == "" {
			return nil, fmt.Errorf("no program %q; there are: %s", name, strings.Join(Names(), " "))
		}
		key, err := os.ReadFile(s.Path(name) + ".key")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if string(key) != s.key(name) {
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

// module lays out a module for Go to build in, which is our go.mod and nothing else. So the
// program needs no source tree where it runs.
func (s *Set) module() (string, error) {
	dir := filepath.Join(s.dir(), "module")
	return dir, errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "go.mod"), s.Mod, 0o644),
		os.WriteFile(filepath.Join(dir, "go.sum"), s.Sum, 0o644),
	)
}

func (s *Set) build(ctx context.Context, module, name string) error {
	fmt.Fprintf(s.Log, "building %s of Kubernetes %s, which takes minutes where it has not been built before\n", name, s.version)
	key := s.Path(name) + ".key"
	if err := os.Remove(key); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fresh := s.Path(name) + ".new"
	cmd := exec.CommandContext(ctx, "go", "build", "-gcflags="+compilerFlags, "-ldflags="+s.linkerFlags(), "-o", fresh, packages[name])
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off")
	cmd.Stdout, cmd.Stderr = s.Log, s.Log
	if err := cmd.Run(); err != nil {
		return err
	}
	if err := os.Rename(fresh, s.Path(name)); err != nil {
		return err
	}
	return os.WriteFile(key, []byte(s.key(name)), 0o644)
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

func (s *Set) key(name string) string {
	h := sha256.New()
	for _, part := range []string{packages[name], string(s.Mod), string(s.Sum), runtime.Version(), runtime.GOARCH, compilerFlags, s.linkerFlags()} {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
