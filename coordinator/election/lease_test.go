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

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"kaas.dev/kaas/internal/sleep"
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
			w.start(w.leaseNode(api, i))
		}
		f(w, &out)
	})
}

func (w *world) leaseNode(api kubernetes.Interface, i int) *node {
	lock, err := newLeaseLock(api.CoordinationV1(), LeaseConfig{Namespace: "ns", Name: "kaas", Identity: fmt.Sprint(i)})
	if err != nil {
		w.Fatal(err)
	}
	n := w.node("", fmt.Sprint(i))
	n.lock = lock
	return n
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
		if leader(ns...) != nil {
			w.Error("somebody is elected while nobody can be")
		}
		out.Store(false)
		w.within(handed, "the same leads again", ns[0].leading.Load)
		w.pass(20 * time.Second)
		if ns[1].terms.Load()+ns[2].terms.Load() > 0 {
			w.Error("the outage has changed who leads")
		}
	})
}

// K-01: a holder that ended in an outage is followed when its lease is over, counted from
// where it could be seen again.
func TestLeaseOutageOfADeadHolder(t *testing.T) {
	cluster(t, func(w *world, out *atomic.Bool) {
		ns := w.sorted()
		out.Store(true)
		w.pass(time.Second)
		ns[0].stop()
		w.pass(20 * time.Second)
		out.Store(false)
		w.within(takeover, "a new leader", func() bool { return leader(ns[1:]...) != nil })
	})
}

// Calls that fail now and then do not keep a dead holder's lease alive.
func TestLeaseTakenThroughFailingCalls(t *testing.T) {
	cluster(t, func(w *world, out *atomic.Bool) {
		ns := w.sorted()
		ns[0].sick.Store(true)
		begun := time.Now()
		for leader(ns[1:]...) == nil {
			out.Store(!out.Load())
			w.pass(700 * time.Millisecond)
			if time.Since(begun) > takeover+2*time.Second {
				w.Fatalf("no leader after %v", time.Since(begun))
			}
		}
	})
}

// A Lease that is deleted is made again by its holder, and nobody takes it meanwhile. One
// whose holder ends with it is made by another.
func TestLeaseDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		w := &world{T: t}
		defer w.end()
		for i := range 3 {
			w.start(w.leaseNode(api, i))
		}
		remove := func() {
			if err := api.CoordinationV1().Leases("ns").Delete(t.Context(), "kaas", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		ns := w.sorted()
		w.pass(time.Second) // all have looked
		for i := range 30 {
			remove()
			w.pass(time.Second + time.Duration(i)*37*time.Millisecond)
		}
		if ns[0].terms.Load() != 1 || ns[1].terms.Load()+ns[2].terms.Load() > 0 {
			w.Error("the deletion has changed who leads")
		}
		ns[0].sick.Store(true)
		remove()
		w.within(takeover+500*time.Millisecond, "another leads", func() bool { return leader(ns[1:]...) != nil })
	})
}

// slow is a lock whose calls take long, and then do what they are for.
type slow struct {
	rl.Interface
	by *atomic.Int64 // nanoseconds
}

func (s slow) wait(ctx context.Context) error {
	if !sleep.For(ctx, time.Duration(s.by.Load())) {
		return ctx.Err()
	}
	return nil
}

func (s slow) Get(ctx context.Context) (*rl.LeaderElectionRecord, []byte, error) {
	if err := s.wait(ctx); err != nil {
		return nil, nil, err
	}
	return s.Interface.Get(ctx)
}

func (s slow) Update(ctx context.Context, r rl.LeaderElectionRecord) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Interface.Update(ctx, r)
}

// K-01: an API server that takes two seconds for each call changes nothing, and a holder
// that ends meanwhile is followed.
func TestLeaseOfASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.NewClientset()
		var by atomic.Int64
		w := &world{T: t, times: [3]time.Duration{LeaseDuration, LeaseRenewDeadline, LeaseRetry}}
		defer w.end()
		for i := range 3 {
			n := w.leaseNode(api, i)
			n.lock = slow{n.lock, &by}
			w.start(n)
		}
		ns := w.sorted()
		w.pass(3 * time.Second)
		by.Store(int64(2 * time.Second))
		w.pass(10 * time.Minute)
		if ns[0].terms.Load() != 1 || ns[1].terms.Load()+ns[2].terms.Load() > 0 {
			w.Errorf("a slow server has changed who leads: %d terms, and %d of others", ns[0].terms.Load(), ns[1].terms.Load()+ns[2].terms.Load())
		}
		ns[0].sick.Store(true)
		w.within(LeaseDuration+LeaseRetry+3*2*time.Second, "another leads", func() bool { return leader(ns[1:]...) != nil })
	})
}

// A renewal is seen as one, also in the second of the one before.
func TestLeaseRenewalIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		defer w.end()
		api := fake.NewClientset()
		mine, theirs := w.leaseNode(api, 1).lock, w.leaseNode(api, 2).lock
		w.nodes = nil // which were not started
		ok(t, mine.Create(t.Context(), record("1")))
		var last []byte
		for range 5 {
			time.Sleep(100 * time.Millisecond)
			_, raw, err := theirs.Get(t.Context())
			ok(t, err)
			if bytes.Equal(raw, last) {
				t.Fatal("a renewal is not seen")
			}
			last = raw
			r := record("1")
			r.RenewTime = metav1.Now()
			ok(t, mine.Update(t.Context(), r))
		}
	})
}

// K-03: what a Lease says of the time decides nothing: one renewed by a clock an hour ahead
// or behind stands for its duration, as seen here.
func TestLeaseOfOtherClocks(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			api := fake.NewClientset()
			r := record("9")
			r.RenewTime = metav1.NewTime(time.Now().Add(skew))
			spec := rl.LeaderElectionRecordToLeaseSpec(&r)
			_, err := api.CoordinationV1().Leases("ns").Create(t.Context(), &coordination.Lease{ObjectMeta: metav1.ObjectMeta{Name: "kaas", Namespace: "ns"}, Spec: spec}, metav1.CreateOptions{})
			ok(t, err)
			w := &world{T: t}
			defer w.end()
			n := w.start(w.leaseNode(api, 1))
			if took := w.within(takeover, "the lease is over", n.leading.Load); took < 3*time.Second {
				t.Errorf("a clock %v off: taken after %v", skew, took)
			}
		})
	}
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
	useServer(t, s.URL)
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

func useServer(t *testing.T, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u","namespace":"here"}}],
		"clusters":[{"name":"k","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"t"}}]}`, url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// K-01: a call that is not answered is not followed by another into the same connection,
// whose other end may be gone for good.
func TestLeaseLeavesADeadConnection(t *testing.T) {
	var first atomic.Pointer[string]
	done := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.CompareAndSwap(nil, &r.RemoteAddr)
		if *first.Load() == r.RemoteAddr {
			<-done
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"kaas"},"spec":{"holderIdentity":"7"}}`)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	defer close(done)
	useServer(t, s.URL)
	lock, err := NewLeaseLock(LeaseConfig{Name: "kaas", Identity: "1", Timeout: 200 * time.Millisecond})
	ok(t, err)
	var r *rl.LeaderElectionRecord
	for range 20 { // a machine that is busy may take longer for a good one, too
		if r, _, err = lock.Get(t.Context()); err == nil {
			break
		}
	}
	if err != nil || r.HolderIdentity != "7" {
		t.Errorf("%+v, %v", r, err)
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
