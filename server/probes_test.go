package server

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas.dev/kaas/internal/testport"
)

// K-04: while what a killed broker led is recovered, for however long, its successor lives and
// is not ready; probes that ask for its life alone leave it to its work. One that is told to stop
// meanwhile does so within the time that the chart gives it, though the volume does not answer.
func TestProbesDuringARecovery(t *testing.T) {
	dir := t.TempDir()
	p := spawn(t, dir, testport.Addr(t))
	p.awaitServing()
	c := dial(t, p.addr)
	c.create("t", 1)
	c.produceTo("t", 0, "kept")
	p.signal(syscall.SIGKILL)
	<-p.done

	// The segment answers nobody who opens it, as a volume that is far behind.
	segments, err := filepath.Glob(filepath.Join(dir, "topics", "*", "0", "*.log"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	segment, aside := segments[0], filepath.Join(dir, "aside")
	if err := os.Rename(segment, aside); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(segment, 0o600); err != nil {
		t.Fatal(err)
	}
	probes := testport.Addr(t)
	p = spawn(t, dir, testport.Addr(t), "http.listeners="+probes)
	p.awaitServing()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	get := func(path string) (int, string) {
		resp, err := client.Get("http://" + probes + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	awaitTrue(t, "partitions are being opened", func() bool { _, line := get("/readyz"); return strings.Contains(line, "still being opened") })
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		if code, line := get("/healthz"); code != http.StatusOK {
			t.Fatalf("/healthz: %d %q", code, line)
		}
		if code, line := get("/readyz"); code != http.StatusServiceUnavailable {
			t.Fatalf("/readyz: %d %q", code, line)
		}
	}
	p.signal(syscall.SIGTERM)
	if code := p.exitWithin(45 * time.Second); code != 0 {
		t.Errorf("told to stop, it ended with %d", code)
	}
	if err := os.Rename(aside, segment); err != nil {
		t.Fatal(err)
	}
	p = spawn(t, dir, testport.Addr(t), "http.listeners="+probes)
	awaitTrue(t, "ready when the volume answers", func() bool { code, _ := get("/readyz"); return code == http.StatusOK })
	if got := dial(t, p.addr).fetch("t", 0); !strings.Contains(string(got.RecordBatches), "kept") {
		t.Errorf("the record is not there: %+v", got)
	}
}
