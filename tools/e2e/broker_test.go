package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/testport"
)

const topic = "lines"

// need skips the test unless end-to-end tests are wanted and the tools are there.
func need(t *testing.T, tools ...string) {
	t.Helper()
	mode := os.Getenv("KAAS_E2E")
	if mode == "" {
		t.Skip("starts whole brokers: set KAAS_E2E=1 to run it")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		if mode == "all" {
			t.Fatalf("KAAS_E2E=all, but %s is not installed", tool)
		}
		t.Skipf("%s is not installed", tool)
	}
}

// foreign is the program that runs in the place of a broker of kaas, such as as-kafka.
var foreign = os.Getenv("KAAS_E2E_BROKER")

// needKaas skips a test that another broker cannot pass.
func needKaas(t *testing.T) {
	t.Helper()
	if foreign != "" {
		t.Skip("is about what only kaas has")
	}
}

// buildBroker makes the binary once for all tests.
var buildBroker = sync.OnceValues(func() (string, error) {
	if foreign != "" {
		return foreign, nil
	}
	dir, err := os.MkdirTemp("", "kaas-e2e-")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "kaas")
	cmd := exec.Command("go", "build", "-o", bin, "kaas.dev/kaas/server/cmd/kaas")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the broker: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == franzCopierArg {
		os.Exit(franzCopierMain(os.Args[2:]))
	}
	code := m.Run()
	if os.Getenv("KAAS_E2E") != "" && foreign == "" {
		if bin, err := buildBroker(); err == nil {
			os.RemoveAll(filepath.Dir(bin))
		}
	}
	os.Exit(code)
}

// broker is one broker process at a time on one data directory and address.
type broker struct {
	t    *testing.T
	dir  string
	addr string
	http string
	log  *bytes.Buffer // of the running process; read when it has ended
	sets []string      // settings besides these, key=value
	opts []kgo.Opt     // of clients that it lets in
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended

	paused bool // by SIGSTOP
}

func startBroker(t *testing.T, sets ...string) *broker {
	t.Helper()
	b := newBroker(t, filepath.Join(t.TempDir(), "data"), sets...)
	b.start()
	return b
}

// newBroker is one that does not run yet, and is killed at the test's end.
func newBroker(t *testing.T, dir string, sets ...string) *broker {
	t.Helper()
	b := &broker{t: t, dir: dir, addr: testport.Addr(t), http: testport.Addr(t), sets: sets}
	t.Cleanup(func() {
		if b.cmd == nil {
			return
		}
		if t.Failed() {
			b.logGoroutines()
		}
		b.kill()
		if t.Failed() {
			t.Logf("the broker's last log:\n%s", tail(b.log.Bytes(), 8192))
		}
	})
	return b
}

func (b *broker) start() {
	b.t.Helper()
	b.launch()
	b.waitReady()
}

// launch starts the process and does not wait for it.
func (b *broker) launch() {
	b.t.Helper()
	bin, err := buildBroker()
	if err != nil {
		b.t.Fatal(err)
	}
	b.log, b.done = &bytes.Buffer{}, make(chan struct{})
	b.cmd = exec.Command(bin, "--set", "listeners=PLAINTEXT://"+b.addr, "--set", "http.listeners="+b.http, "--set", "log.dirs="+b.dir)
	for _, set := range b.sets {
		b.cmd.Args = append(b.cmd.Args, "--set", set)
	}
	b.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "KAAS_") }) // ours are no settings
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	cmd, done := b.cmd, b.done
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(done)
	}()
}

// waitReady waits until the broker answers a request.
func (b *broker) waitReady() {
	b.t.Helper()
	cl := newClient(b.t, b.addr, b.opts...)
	defer cl.Close()
	began := time.Now()
	for time.Since(began) < startTime {
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
		err := cl.Ping(ctx)
		cancel()
		if err == nil {
			b.t.Logf("broker answers %v after its start", time.Since(began).Round(time.Millisecond))
			return
		}
		select {
		case <-b.done:
			b.t.Fatalf("the broker ended: %v\n%s", b.cmd.ProcessState, b.log.Bytes())
		case <-time.After(5 * time.Millisecond):
		}
	}
	b.t.Fatalf("the broker does not answer after %v", startTime)
}

// startTime is how long a broker may take to answer.
var startTime = func() time.Duration {
	if foreign != "" {
		return 4 * time.Minute
	}
	return time.Minute
}()

// logGoroutines tells where a broker that still runs has come to, for a test that
// has waited in vain.
func (b *broker) logGoroutines() {
	cl := http.Client{Timeout: 5 * time.Second}
	resp, err := cl.Get("http://" + b.http + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		b.t.Logf("the broker's goroutines: %v", err)
		return
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	b.t.Logf("the broker's goroutines (%v):\n%s", err, tail(text, 32768))
}

// kill is kill -9, and waits until the process is gone.
func (b *broker) kill() {
	_ = b.cmd.Process.Kill() // an error says that it is gone already
	<-b.done
}

// stop asks the broker to end and wants it to end well.
func (b *broker) stop() {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.t.Fatal(err)
	}
	select {
	case <-b.done:
	case <-time.After(startTime):
		b.t.Fatalf("the broker has not ended %v after SIGTERM", startTime)
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		b.t.Fatalf("the broker ended with code %d after SIGTERM\n%s", code, b.log.Bytes())
	}
}

// killAt kills and restarts the broker each time its logs have grown to one of the
// given shares of the text. It returns when the last restart is done, and fails if
// the producer was done first: then nothing was interrupted.
func (b *broker) killAt(producerDone <-chan struct{}, shares ...float64) {
	b.t.Helper()
	for _, share := range shares {
		b.waitBytes(producerDone, int64(share*float64(len(text()))))
		b.kill()
		b.start()
	}
}

func (b *broker) waitBytes(producerDone <-chan struct{}, want int64) {
	b.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		if have := b.logBytes(); have >= want {
			b.t.Logf("kill -9 at %d MB", have/1_000_000)
			return
		}
		select {
		case <-producerDone:
			b.t.Fatalf("the producer ended before the log had %d bytes: nothing was interrupted", want)
		case <-deadline:
			b.t.Fatalf("the log has not reached %d bytes in 2 minutes", want)
		case <-time.After(time.Millisecond):
		}
	}
}

// logBytes is the size of all segments, looked at from outside.
func (b *broker) logBytes() (n int64) {
	b.t.Helper()
	names, err := filepath.Glob(filepath.Join(b.dir, "topics", "*", "0", "*.log"))
	if err != nil {
		b.t.Fatal(err)
	}
	for _, name := range names {
		if fi, err := os.Stat(name); err == nil { // removed meanwhile otherwise
			n += fi.Size()
		}
	}
	return n
}

// endOffset is the topic's end, or -1 while it cannot be told.
func endOffset(ctx context.Context, adm *kadm.Client) int64 {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return -1
	}
	if end, ok := ends.Lookup(topic, 0); ok && end.Err == nil {
		return end.Offset
	}
	return -1
}

// awaitEnd asks for the topic's end until it is told, or ctx ends.
func awaitEnd(ctx context.Context, adm *kadm.Client) (end int64) {
	for end = -1; end < 0 && ctx.Err() == nil; {
		end = endOffset(ctx, adm)
	}
	return end
}

func newClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.AlwaysRetryEOF()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		return b[len(b)-n:]
	}
	return b
}
