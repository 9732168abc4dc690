package groupshard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/projections/groups"
)

func hostileJoin(client string, metadata int) classic.JoinRequest {
	return classic.JoinRequest{ClientID: client, Host: "/10.0.0.1", ProtocolType: "consumer", SessionTimeout: 30 * time.Minute, RebalanceTimeout: 30 * time.Minute,
		Protocols: []groups.Protocol{{Name: "range", Metadata: make([]byte, metadata)}}}
}

// grown is by how many bytes of the heap f has more to be kept.
func grown(f func()) int64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// Who asks for member IDs by the hundred thousand, and joins with none of them, costs a few
// megabytes, and keeps nobody else waiting.
func TestHostilePendingMembers(t *testing.T) {
	sh := newBench(t).owner(1)
	began := time.Now()
	got := grown(func() {
		for i := range 100_000 {
			r := hostileJoin(strings.Repeat("c", 1000)+fmt.Sprint(i), 1<<10)
			r.RequireKnownID = true
			if a := sh.Join(t.Context(), "g", r); a.Err != kerr.MemberIDRequired {
				t.Fatalf("%d: %v", i, a.Err)
			}
		}
	})
	if t.Logf("%d KiB, %v", got>>10, time.Since(began)); got > 16<<20 {
		t.Errorf("%d MiB are kept", got>>20)
	}
	r := hostileJoin("normal", 100)
	r.RequireKnownID = true
	id := sh.Join(t.Context(), "g", r).MemberID
	r.MemberID, r.RequireKnownID = id, true
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if a := sh.Join(ctx, "g", r); a.Err != nil || a.Generation != 1 {
		t.Errorf("a normal member: %+v", a)
	}
}

// Members with large metadata, who hang up and are remembered for their sessions, take no
// more than a group may have, and all groups of a shard no more than it may.
func TestHostileMetadata(t *testing.T) {
	sh := newBench(t).owner(1)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	got := grown(func() {
		for i := range 200 {
			sh.Join(gone, "g", hostileJoin(fmt.Sprint("c", i), 1<<20))
		}
	})
	if t.Logf("one group: %d KiB", got>>10); got > classic.MostBytes+4<<20 {
		t.Errorf("a group has %d MiB", got>>20)
	}
	if a := sh.Join(t.Context(), "g", hostileJoin("late", 1<<20)); !errors.Is(a.Err, kerr.GroupMaxSizeReached) {
		t.Errorf("one more: %v", a.Err)
	}
	got += grown(func() {
		for i := range 200 {
			sh.Join(gone, fmt.Sprint("g", i), hostileJoin("c", 1<<20))
		}
	})
	if t.Logf("with all groups: %d KiB", got>>10); got > mostLive+8<<20 {
		t.Errorf("a shard has %d MiB", got>>20)
	}
	if a := sh.Join(t.Context(), "h", hostileJoin("late", 1<<20)); !errors.Is(a.Err, kerr.CoordinatorNotAvailable) {
		t.Errorf("one group more: %v", a.Err)
	}
	sh.mu.Lock()
	sum := int64(0)
	for _, l := range sh.mu.live {
		sum += l.g.Bytes()
	}
	if sum != sh.mu.shares.total || sum > mostLive {
		t.Errorf("groups have %d bytes, counted are %d", sum, sh.mu.shares.total)
	}
	sh.mu.Unlock()
}
