package server

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/projections"
)

// A damaged partition is told of at once, wherever anybody asks, and costs the others
// nothing.
func TestDamagedPartition(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(t.Context(), testConfig(t, dir), testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, first.Addr())
	id := projections.TopicID(c.create("t", 2))
	c.produceTo("t", 0, "v")
	c.produceTo("t", 1, "v")
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "topics", id.String(), "1", "meta", "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if fi, err := os.Stat(f); err != nil || fi.Size() == 0 {
			continue
		}
		if err := os.WriteFile(f, []byte("no file of ours, and long enough to be looked at as one"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	n := startNode(t, dir)
	c = dial(t, n.Addr())
	for began := time.Now(); n.broker.Offline(id, 1) == nil || !strings.Contains(n.broker.NotReady().Error(), ", 0 still"); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("the damage is not noticed: %v", n.broker.NotReady())
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	ps := c.ask(req).(*kmsg.MetadataResponse).Topics[0].Partitions
	if p := ps[1]; p.ErrorCode != 5 || p.Leader != -1 || len(p.ISR) != 0 || len(p.Replicas) != 1 || len(p.OfflineReplicas) != 1 {
		t.Errorf("metadata: %+v", p)
	}
	if p := ps[0]; p.ErrorCode != 0 || p.Leader != 0 || len(p.OfflineReplicas) != 0 {
		t.Errorf("metadata of the healthy one: %+v", p)
	}
	produce := produceReq(-1, "t", newBatch(nil, "v"))
	fetch := fetchReq("t", 0, 10*time.Minute)
	for index, want := range []int16{0, 56} {
		produce.Topics[0].Partitions[0].Partition = int32(index)
		fetch.Topics[0].Partitions[0].Partition = int32(index)
		if code := c.ask(produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != want {
			t.Errorf("produce to %d: error %d, want %d", index, code, want)
		}
		if code := c.ask(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode; code != want {
			t.Errorf("fetch from %d: error %d, want %d", index, code, want)
		}
	}
	resp, err := http.Get("http://" + n.HTTPAddr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	line := strings.TrimSuffix(string(b), "\n")
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.HasPrefix(line, "1 partitions are offline") ||
		!strings.Contains(line, "t-1") || !strings.Contains(line, "meta/") || strings.Contains(line, "\n") {
		t.Errorf("/readyz: %d %q, %v", resp.StatusCode, line, err)
	}
}
