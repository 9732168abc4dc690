package server

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process whose volume is full to the last byte answers probes and tells why it does not
// serve, and serves when there is room.
func TestStartOnAFullVolume(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a file system of 16 MiB cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	volume, hog := filepath.Join(dir, "volume"), filepath.Join(dir, "hog")
	sets := []string{"storage.min.free.bytes=0", "storage.ballast.bytes=0"}
	first, err := Open(t.Context(), testConfig(t, volume, sets...), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	dial(t, first.Addr()).create("t", 1)
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(hog)
	if err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 4<<10); err == nil; {
		_, err = f.Write(b)
	}
	f.Close()

	n := &Node{cfg: testConfig(t, volume, sets...), log: testLog(t), metrics: newMetrics()}
	if err := n.bind(); err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + n.HTTPAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, strings.TrimSuffix(string(b), "\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	opened := make(chan error, 1)
	go func() { opened <- n.open(ctx) }() // ends with ctx at the latest
	await := func(code int, text string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(time.Millisecond) {
			got, line := get("/readyz")
			if got == code && strings.Contains(line, text) && !strings.Contains(line, "\n") {
				return
			}
			if time.Since(began) > patience {
				t.Fatalf("/readyz: %d %q, want %d %q", got, line, code, text)
			}
		}
	}
	await(http.StatusServiceUnavailable, "the volume has no room for this broker's session")
	if code, _ := get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Stop(context.Background()) }()
	await(http.StatusOK, "ok")
	dial(t, n.Addr()).produceTo("t", 0, "v")
}
