package programs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
)

const mod = "module m\n\nrequire k8s.io/kubernetes v1.2.3\n"

func files(mod string) fs.FS {
	return fstest.MapFS{"go.mod": {Data: []byte(mod)}, "go.sum": {}}
}

func open(t *testing.T, cache, mod string) *Set {
	t.Helper()
	s, err := Open(Set{Files: files(mod), Cache: cache, Log: &bytes.Buffer{}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAProgramIsBuiltAgainWhenWhatItIsMadeOfChanges(t *testing.T) {
	cache := t.TempDir()
	s := open(t, cache, mod)
	if want := filepath.Join(cache, "v1.2.3", "kubelet"); s.Path("kubelet") != want {
		t.Errorf("it is kept at %s, want %s", s.Path("kubelet"), want)
	}
	missing := func(s *Set, want ...string) {
		t.Helper()
		got, err := s.Missing("kubelet", "etcd")
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("missing are %v (%v), want %v", got, err, want)
		}
	}
	missing(s, "kubelet", "etcd")
	if err := os.MkdirAll(s.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	key, err := s.key("etcd")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path("etcd")+".key", []byte(key), 0o644); err != nil {
		t.Fatal(err)
	}
	missing(s, "kubelet")
	missing(open(t, cache, mod+"require other v1.0.0\n"), "kubelet", "etcd")
}

func TestOnlyWhatIsKnownIsBuilt(t *testing.T) {
	if _, err := open(t, t.TempDir(), mod).Missing("kubeletter"); err == nil {
		t.Error("a program that is not there is not missed")
	}
	if _, err := Open(Set{Files: files("module m\n")}); err == nil {
		t.Error("a go.mod without Kubernetes has a version of it")
	}
}
