package partition

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
)

// TestSyncAhead: where commits do not sync, the recovery point moves all the same, and
// nothing is lost of what a takeover finds behind it.
func TestSyncAhead(t *testing.T) {
	v := dirVolume(t)
	cfg := testConfig()
	cfg.FlushMessages, cfg.RecoveryPointBytes = 1<<40, 1000
	p := open(t, newSession(t, v), 1, cfg)
	abandon(t, p)
	n := 0
	for committed(t, p).Recovery.Offset < 100 {
		appendN(t, p, 10)
		if n += 10; n > 100_000 {
			t.Fatal("the recovery point does not move")
		}
	}
	before := values(t, p)
	ok(t, p.Abandon(context.Background()))
	p = open(t, newSession(t, v), 2, cfg)
	abandon(t, p)
	if after := values(t, p); strings.Join(after, "") != strings.Join(before, "") {
		t.Fatalf("%d values before, %d after", len(before), len(after))
	}
}

// TestSyncAheadFails: what the sync beside the commits says is never passed over.
func TestSyncAheadFails(t *testing.T) {
	var sick atomic.Bool
	d, err := substrate.OpenDir(t.TempDir())
	ok(t, err)
	v := newVolume(t, &faultfs.FS{FS: d, Hook: func(o faultfs.Op) faultfs.Fault {
		if sick.Load() && o.Name == "datasync" && strings.HasSuffix(o.Path, ".log") {
			return faultfs.Fault{Err: faultfs.EIO}
		}
		return faultfs.Fault{}
	}})
	cfg := testConfig()
	cfg.FlushMessages, cfg.RecoveryPointBytes = 1<<40, 1000
	p := open(t, newSession(t, v), 1, cfg)
	abandon(t, p)
	appendN(t, p, 1)
	sick.Store(true)
	for range 100_000 {
		a, err := p.Append(context.Background(), rec(0, "value"))
		if err == nil {
			err = a.Wait(context.Background())
		}
		if err != nil {
			wantCode(t, err, kerr.KafkaStorageError)
			return
		}
	}
	t.Fatal("a failed sync went unnoticed")
}
