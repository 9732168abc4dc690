package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestLinesStayWhole(t *testing.T) {
	var got bytes.Buffer
	out := &lines{out: &got}
	a, b := &prefixed{prefix: "1 | ", to: out}, &prefixed{prefix: "2 | ", to: out}
	fmt.Fprint(a, "one")
	fmt.Fprint(b, "two\nthree\nfo")
	fmt.Fprint(a, " more\n")
	fmt.Fprint(b, "ur\n\n")
	want := "2 | two\n2 | three\n1 | one more\n2 | four\n2 | \n"
	if got.String() != want {
		t.Errorf("written %q, want %q", got.String(), want)
	}
}

// heard is what was said, and lets a test wait for something.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed at the next write
}

func newHeard() *heard { return &heard{more: make(chan struct{})} }

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.more)
	h.more = make(chan struct{})
	return h.text.Write(b)
}

func (h *heard) now() (string, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String(), h.more
}

// await waits for a text and returns what its groups matched.
func (h *heard) await(t *testing.T, pattern string) []string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	late := time.After(3 * time.Minute) // the broker is built first
	for {
		text, more := h.now()
		if m := re.FindStringSubmatch(text); m != nil {
			return m[1:]
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("nobody said %q; heard:\n%s", pattern, text)
		}
	}
}

// freePort is a port with n-1 free ones behind it, below those that outgoing connections take,
// and hardly the one that somebody else finds at the same time.
func freePort(t *testing.T, n int) int {
	t.Helper()
	for range 1000 {
		port := 12_000 + rand.IntN(20_000-n)
		free := 0
		for i := range n {
			l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port+i))
			if err != nil {
				break
			}
			defer l.Close()
			free++
		}
		if free == n {
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}

// TestKilledAndStopped runs a broker, kills it, sees it again, and ends it in order.
func TestKilledAndStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a broker")
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	port := freePort(t, 2)
	p := plan{brokers: 1, dir: t.TempDir(), port: port, http: port + 1, again: time.Millisecond, logLevel: "info"}
	ctx, stop := context.WithCancel(t.Context())
	h := newHeard()
	done := make(chan error, 1)
	go func() { done <- run(ctx, t.Context(), p, &lines{out: h}) }()
	h.await(t, `bootstrap.servers=127.0.0.1:`+strconv.Itoa(port)+"\n")
	pid, err := strconv.Atoi(h.await(t, `broker 1 .* pid (\d+)\n`)[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	h.await(t, `broker 1 has ended: signal: killed`)
	h.await(t, `broker 1 is ready again after \d+ ms`)
	h.await(t, `(?m)^1 \| \{`)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	h.await(t, `broker 1 has stopped`)
}

// TestRefused has a broker that cannot start end all of them.
func TestRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts a broker")
	}
	port := freePort(t, 2)
	p := plan{brokers: 1, dir: t.TempDir(), port: port, http: port + 1, logLevel: "warn", sets: []string{"no.such.key=1"}}
	h := newHeard()
	err := run(t.Context(), t.Context(), p, &lines{out: h})
	if text, _ := h.now(); err == nil || !strings.Contains(text, "no.such.key") {
		t.Errorf("a broker that is set up wrongly ended with %v and said %q", err, text)
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := plan{brokers: 1, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port, http: freePort(t, 1), binary: "kaas"}
	if err := run(t.Context(), t.Context(), p, &lines{out: newHeard()}); err == nil || !strings.Contains(err.Error(), "cannot have "+l.Addr().String()) {
		t.Errorf("a port that is in use gave %v", err)
	}
}
