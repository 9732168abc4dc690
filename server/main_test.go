package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kaas.dev/kaas/projections"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kaas-server-test")
	if err != nil {
		panic(err)
	}
	binaryPath = filepath.Join(dir, "kaas")
	for _, kv := range os.Environ() { // what the sweeps are told is no broker's setting
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "KAAS_") {
			os.Unsetenv(name)
		}
	}
	code := m.Run()
	os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is how long a test waits for what has to come. A machine may be slow and have other
// work: only what hangs takes so long.
const patience = time.Minute

var binaryPath string

// builtBinary builds the broker's command, once for all tests.
var builtBinary = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "build", "-o", binaryPath, "kaas.dev/kaas/server/cmd/kaas").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binaryPath, nil
})

func testLog(t testing.TB) *slog.Logger {
	if testing.Verbose() {
		return slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}

// patient are settings of brokers that are to live, and of a controller that is to stay: on a
// machine that does much else, one says nothing for seconds.
var patient = []string{"broker.session.timeout.ms=60000", "controller.lease.duration.ms=30000", "controller.lease.renew.deadline.ms=25000"}

// testConfig is a configuration with free ports and the given settings.
func testConfig(t testing.TB, dir string, sets ...string) *Config {
	t.Helper()
	base := []string{"listeners=PLAINTEXT://127.0.0.1:0", "http.listeners=127.0.0.1:0", "log.dirs=" + dir,
		"offsets.topic.num.partitions=4", "transaction.state.log.num.partitions=4"} // each is a stream
	cfg, err := LoadConfig(Sources{Sets: slices.Concat(base, patient, sets)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// startNode runs a broker in this process on dir until the test's end. Its coordinators serve.
func startNode(t testing.TB, dir string, sets ...string) *Node {
	t.Helper()
	return startConfig(t, testConfig(t, dir, sets...))
}

func startConfig(t testing.TB, cfg *Config) *Node {
	t.Helper()
	n, err := Open(context.Background(), cfg, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("the coordinators do not serve: %v", n.broker.NotReady())
		}
		_, groups := n.broker.GroupShards()
		_, txns := n.broker.TxnShards()
		if groups && txns && len(n.broker.View().Shards(projections.ShardTxns)) > 0 {
			break
		}
	}
	return n
}

// served waits until the node serves all that is assigned to it.
func served(t testing.TB, n *Node) *Node {
	t.Helper()
	for began := time.Now(); n.broker.NotReady() != nil; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not ready: %v", n.broker.NotReady())
		}
	}
	return n
}

// process is the real binary as a child.
type process struct {
	t    testing.TB
	cmd  *exec.Cmd
	out  lockedBuffer
	addr string
	done chan struct{}
	code int
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// spawn starts the binary on dir and returns at once. addr is where it will listen.
func spawn(t testing.TB, dir, addr string, sets ...string) *process {
	t.Helper()
	bin, err := builtBinary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, addr: addr, done: make(chan struct{})}
	args := []string{}
	for _, s := range slices.Concat([]string{"listeners=PLAINTEXT://" + addr, "http.listeners=", "log.dirs=" + dir}, patient, sets) {
		args = append(args, "--set", s)
	}
	p.cmd = exec.Command(bin, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		err := p.cmd.Wait()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			p.code = exit.ExitCode()
		}
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		if t.Failed() {
			t.Logf("output of the broker on %s:\n%s", addr, p.out.String())
		}
	})
	return p
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// exit waits for the process and returns its exit code.
func (p *process) exit() int { p.t.Helper(); return p.exitWithin(patience) }

func (p *process) exitWithin(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.code
	case <-time.After(limit):
		p.t.Fatalf("the broker still runs after %v:\n%s", limit, p.out.String())
		return -1
	}
}

// awaitReady waits until all partitions are served.
func awaitReady(t testing.TB, n *Node) {
	t.Helper()
	for began := time.Now(); !n.broker.Ready(); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the broker does not get ready")
		}
	}
}
