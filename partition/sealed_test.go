package partition

import (
	"context"
	"testing"

	"kaas.dev/kaas/internal/sleep"
)

// A segment's file is to be unlinked a while after the manifest did without it. When the
// time has come the volume has come back from a snapshot, whose manifest names the file.
func TestSealedLeaderUnlinksNothing(t *testing.T) {
	v := dirVolume(t)
	s := newSession(t, v)
	p := open(t, s, 1, testConfig())
	abandon(t, p)
	appendN(t, p, 3)
	ok(t, v.Seal(context.Background(), s.ID()))
	p.mu.Lock()
	id := p.mu.segs[0].id
	p.doomLocked(id, 0)
	p.mu.Unlock()
	for reaping := true; reaping; sleep.Before(context.Background(), 1, mostPause) {
		p.mu.Lock()
		reaping = p.mu.reaping
		p.mu.Unlock()
	}
	if there := must(listed(v, p.dir, id.String()))(t); !there {
		t.Error("the file is gone")
	}
}
