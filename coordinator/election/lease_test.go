package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
)

// cluster is a fake API server and candidates for one Lease.
func cluster(t *testing.T, f func(w *world, out *atomic.Bool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		var out atomic.Bool
		api.PrependReactor("*", "leases", func(kubetest.Action) (bool, runtime.Object, error) {
			if out.Load() {
				return true, nil, errors.New("API server is away")
			}
			return false, nil, nil
		})
		w := &world{T: t}
		defer w.end()
		for i := range 3 {
			lock, err := newLeaseLock(api.CoordinationV1(), LeaseConfig{Namespace: "ns", Name: "kaas", Identity: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			n := w.node("", fmt.Sprint(i))
			n.lock = lock
			w.start(n)
		}
		f(w, &out)
	})
}

func TestLeaseHandedOver(t *testing.T) {
	cluster(t, func(w *world, _ *atomic.Bool) {
		ns := w.sorted()
		w.pass(20 * time.Second)
		if ns[0].terms.Load() != 1 {
			w.Error("a steady holder was deposed")
		}
		ns[0].stop()
		w.within(handed, "a new leader", func() bool { return leader(ns[1:]...) != nil })
	})
}

func TestLeaseTakenFromTheUnhealthy(t *testing.T) {
	cluster(t, func(w *world, _ *atomic.Bool) {
		ns := w.sorted()
		ns[0].sick.Store(true)
		w.within(takeover, "a new leader", func() bool { return leader(ns[1:]...) != nil })
	})
}

// K-01: an outage of the API server ends the term, and not the candidacy.
func TestLeaseOutage(t *testing.T) {
	cluster(t, func(w *world, out *atomic.Bool) {
		ns := w.sorted()
		out.Store(true)
		w.pass(time.Second)
		out.Store(false)
		w.pass(5 * time.Second)
		if !ns[0].leading.Load() || ns[0].terms.Load() != 1 {
			w.Error("a short outage ended the term")
		}
		out.Store(true)
		w.within(givenUp, "Lead's context ends", func() bool { return leader(ns...) == nil })
		w.pass(20 * time.Second)
		out.Store(false)
		w.within(takeover, "a leader", func() bool { return leader(ns...) != nil })
	})
}

func TestLeaseNames(t *testing.T) {
	leases := fake.NewClientset().CoordinationV1()
	for _, cfg := range []LeaseConfig{
		{Name: "n", Identity: "1"}, {Namespace: "ns", Identity: "1"}, {Namespace: "ns", Name: "n"}, {Namespace: "ns", Name: "n", Identity: "?"},
	} {
		if _, err := newLeaseLock(leases, cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
}

// The lock goes to the server that KUBECONFIG names, in its namespace, and does not wait
// for one that does not answer.
func TestLeaseByKubeconfig(t *testing.T) {
	asked, done := make(chan string, 10), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		<-done
	}))
	defer s.Close()
	defer close(done)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u","namespace":"here"}}],
		"clusters":[{"name":"k","cluster":{"server":%q}}],"users":[{"name":"u","user":{"token":"t"}}]}`, s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	lock, err := NewLeaseLock(LeaseConfig{Name: "kaas", Identity: "1", Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock.Get(context.Background()); err == nil {
		t.Error("a server that does not answer has answered")
	}
	if got, want := <-asked, "/apis/coordination.k8s.io/v1/namespaces/here/leases/kaas"; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}

func TestNoKubernetesHere(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := NewLeaseLock(LeaseConfig{Name: "kaas", Identity: "1"}); err == nil || !strings.Contains(err.Error(), "KUBECONFIG") {
		t.Errorf("got %v", err)
	}
}

// lockedBuffer is written by many goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// What the library has to say goes to the given logger, at debug level, and nowhere else.
func TestLibraryLogsBelowDebug(t *testing.T) {
	if klog.Background().Enabled() {
		t.Error("the library logs without a logger")
	}
	lines := map[slog.Level]string{}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		synctest.Test(t, func(t *testing.T) {
			var out lockedBuffer
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(5*time.Second+100*time.Millisecond, cancel)
			err := Run(ctx, Config{Lock: NewVolumeLock(onTemp(t, nil), "1"), Lead: func(ctx context.Context) { <-ctx.Done() },
				Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))})
			if err != nil {
				t.Error(err)
			}
			lines[level] = out.b.String()
		})
	}
	if !strings.Contains(lines[slog.LevelDebug], `level=DEBUG msg="Attempting to acquire leader lease..."`) {
		t.Errorf("the library's log is not passed on:\n%s", lines[slog.LevelDebug])
	}
	if got := lines[slog.LevelInfo]; strings.Contains(got, "lease") || strings.Count(got, "\n") != 2 {
		t.Errorf("want two lines, of being elected and no longer:\n%s", got)
	}
}
