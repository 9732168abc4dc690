package coordinator

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"kaas.dev/kaas/projections"
)

// The number of shards stays what it was made, and who is configured otherwise is told.
func TestShardsAreFixed(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	opt := options(t)
	opt.GroupShards, opt.TxnShards = 2, 2
	stop(t, start(t, v, opt))
	var log bytes.Buffer
	var mu sync.Mutex
	opt = options(t)
	opt.GroupShards, opt.TxnShards = 3, 2
	opt.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil))
	v2, _ := mount(t, dir)
	b := start(t, v2, opt)
	eventually(t, "the warning", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(log.String(), "level=WARN") && strings.Contains(log.String(), "kind=groups made=2 configured=3")
	})
	if n := len(b.View().Shards(projections.ShardGroups)); n != 2 {
		t.Errorf("%d shards", n)
	}
	mu.Lock()
	if strings.Contains(log.String(), "kind=txns") {
		t.Error("a warning of what is as configured")
	}
	mu.Unlock()
	stop(t, b)
}
