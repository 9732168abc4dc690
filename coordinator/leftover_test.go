package coordinator

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
)

// A process that was sealed may go on building a partition, and rename it into place,
// while its leftovers are removed. What it renames is never half removed.
func TestLeftoverThatIsStillBeingBuilt(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	topic := create(t, b, "a", 1)
	old, err := v.OpenSession(substrate.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Seal(ctx(t, time.Minute), old.ID()); err != nil {
		t.Fatal(err)
	}
	topicDir := filepath.Join(dir, "topics", topic.ID.String())
	tmp := filepath.Join(topicDir, "~new~"+old.ID()+"~n")
	epoch := filepath.Join(tmp, "meta", "0000000000")
	if err := os.MkdirAll(epoch, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(epoch, "claim"), []byte("whole"), 0o644); err != nil {
		t.Fatal(err)
	}
	var placed atomic.Bool
	f.set(func(op, name string) error {
		if op == "remove" && strings.Contains(name, "0000000000") && !strings.HasSuffix(name, "claim") {
			// The other process makes the entry and is done.
			if err := os.WriteFile(filepath.Join(epoch, "0000000000-00000000000000000001.snap"), []byte("whole"), 0o644); err == nil {
				placed.Store(os.Rename(tmp, filepath.Join(topicDir, "1")) == nil)
			}
		}
		return nil
	})
	if err := b.CreatePartitions(ctx(t, time.Minute), topic.ID, 2, false); err != nil {
		t.Error(err)
	}
	if placed.Load() {
		t.Fatal("a directory was renamed into place of which a part was removed")
	}
	mustPartition(t, b, topic.ID, 1)
	if err := old.Close(ctx(t, time.Minute)); err != nil {
		t.Error(err)
	}
}
