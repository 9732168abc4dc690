package rebuild

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/internal/substrate/nfssim"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

func TestRolledBack(t *testing.T) {
	fs := nfssim.New(nfssim.Config{}).Server()
	v, was := populate(t, fs)
	dry := opts()
	dry.DryRun = true
	plan, err := RolledBack(bg, v, dry)
	ok(t, err)
	if now := reopen(t, fs); now.ID != "old" || plan.NewID != "" || plan.Partitions != 2 || plan.Groups != 1 || plan.Txns != 3 || plan.Aborted != 1 {
		t.Errorf("a dry run left volume %s and says %+v", now.ID, plan)
	}
	r, err := RolledBack(bg, v, opts())
	ok(t, err)
	now := reopen(t, fs)
	if now.ID != r.NewID || r.NewID == "old" || r.OldID != "old" || r.Sealed == 0 || len(r.Lost) != 0 {
		t.Errorf("volume %s, report %+v", now.ID, r)
	}
	rolledBack(t, now, was)
}

// A volume whose ID is lost too gets one.
func TestRebuild(t *testing.T) {
	for _, lost := range [][]string{{"meta"}, {"meta", "volume"}} {
		t.Run(strings.Join(lost, "+"), func(t *testing.T) {
			fs := nfssim.New(nfssim.Config{}).Server()
			v, _ := populate(t, fs)
			if _, err := Rebuild(bg, v, opts()); !errors.Is(err, ErrThere) {
				t.Fatalf("metadata that is there: %v", err)
			}
			for _, dir := range lost {
				ok(t, v.RemoveTree(dir))
			}
			if len(lost) == 2 {
				v = &substrate.Volume{FS: fs}
			}
			r, err := Rebuild(bg, v, opts())
			ok(t, err)
			if r.Aborted != 1 || len(r.Topics) != 1 || len(r.Lost) == 0 {
				t.Errorf("report %+v", r)
			}
			rebuilt(t, reopen(t, fs))
		})
	}
}

// What is lost of topics is named, and the rest comes back.
func TestRebuildNamesWhatIsLost(t *testing.T) {
	fs := nfssim.New(nfssim.Config{}).Server()
	v, _ := populate(t, fs)
	now := time.Now()
	other := func(n byte, name string, made time.Time, partitions int32) projections.TopicID {
		id := projections.TopicID{n, 15: n}
		ok(t, partition.BuildTopicAs(v, "birth", id, name, &partition.About{Partitions: partitions, Created: made.UnixMilli()}, made))
		return id
	}
	gone := other(2, "gone", now, 3) // its last partition has no directory
	ok(t, v.RemoveTree(partition.Dir(gone, 2)))
	torn := other(3, "torn", now, 2) // a manifest of it is damaged
	stream := partition.ManifestStream(torn, 0)
	ok(t, v.Remove(substrate.EntryPath(stream, substrate.Position{Epoch: 0, Seq: 1})))
	ok(t, v.WriteFile(substrate.EntryPath(stream, substrate.Position{Epoch: 0, Seq: 1}), []byte("torn")))
	first := other(4, "twice", now.Add(-time.Hour), 1)
	second := other(5, "twice", now, 2)
	empty := other(6, "unreadable", now, 1)
	ok(t, v.RemoveTree(partition.Dir(empty, 0)))
	away := other(7, "deleted", now, 1)
	ok(t, v.Rename(partition.TopicDir(away), "topics/~deleted~"+away.String()))
	ok(t, v.RemoveTree("meta"))

	dry := opts()
	dry.DryRun, dry.MakeMissing = true, true
	_, err := Rebuild(bg, v, dry)
	ok(t, err)
	r, err := Rebuild(bg, v, opts())
	ok(t, err)
	said := strings.Join(append(r.Lost, r.Notes...), "\n")
	for _, want := range []string{
		"partition 2 of topic gone will be offline: its directory is gone",
		"partition 0 of topic torn will be offline: " + stream,
		fmt.Sprintf("topics/%s has the name twice too, but was made earlier than %s", first, second),
		fmt.Sprintf("topics/%s: no manifest in it can be read", empty),
		"topics/~deleted~" + away.String(),
		"committed offsets", "ACLs", "brokers",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q:\n%s", want, said)
		}
	}
	c := state(t, reopen(t, fs), path.Join("meta", r.NewID, "cluster"), projections.ClusterSchema())
	for name, n := range map[string]int{"orders": 2, "gone": 3, "torn": 2, "twice": 2, "unreadable": 0, "deleted": 0} {
		if topic := c.Topic(name); (topic == nil) != (n == 0) || topic != nil && len(topic.Partitions) != n {
			t.Errorf("topic %s is %+v, want %d partitions", name, topic, n)
		}
	}
	if c.Topic("twice").ID != second {
		t.Error("the older of two topics came back")
	}

	// What is gone can be made anew, if that is wanted.
	again := opts()
	again.MakeMissing, again.Force, again.NewID = true, true, sweep.IDs("again")
	r, err = Rebuild(bg, reopen(t, fs), again)
	ok(t, err)
	if !strings.Contains(strings.Join(r.Lost, "\n"), "partition 2 of topic gone: its directory is gone, and it is made anew") {
		t.Errorf("report %+v", r)
	}
	if _, err := metalog.Newest(v, partition.ManifestStream(gone, 2)); err != nil {
		t.Error(err)
	}
}

// Of what the partitions know of their topic the newest counts, and the cluster stream goes on above it.
func TestNewestDescriptionCounts(t *testing.T) {
	fs := nfssim.New(nfssim.Config{}).Server()
	v, _ := populate(t, fs)
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleData})
	ok(t, err)
	for i, about := range []*partition.About{
		{Partitions: 4, Configs: map[string]string{"retention.ms": "9"}, View: substrate.Position{Epoch: 30, Seq: 2}},
		{Partitions: 3, Configs: map[string]string{"retention.ms": "8"}, View: substrate.Position{Epoch: 30, Seq: 1}},
	} {
		cfg := config()
		cfg.About = about
		p, err := partition.Open(bg, s, ordersID, "orders", int32(i), 2, cfg)
		ok(t, err)
		ok(t, p.Relinquish(bg))
	}
	ok(t, v.RemoveTree("meta"))
	r, err := Rebuild(bg, v, opts())
	ok(t, err)
	if len(r.Topics) != 1 || r.Topics[0].Partitions != 4 || r.Topics[0].Configs["retention.ms"] != "9" {
		t.Errorf("the topics are %+v", r.Topics)
	}
	at, err := metalog.Newest(v, path.Join("meta", r.NewID, "cluster"))
	if ok(t, err); at.Epoch != 31 {
		t.Errorf("the cluster stream goes on at %s", at)
	}
}

// The newest entry of a stream may be damaged, or not be read this time. That is not what a
// broker wrote after the volume came back: nothing is set aside, and an older state is not
// gone on from.
func TestRolledBackTakesNoDamageForStray(t *testing.T) {
	for name, spoil := range map[string]func(d *substrate.DirFS, file string) substrate.FS{
		"a byte": func(d *substrate.DirFS, file string) substrate.FS {
			full := filepath.Join(d.Root(), file)
			b, err := os.ReadFile(full)
			ok(t, err)
			b[len(b)-1] ^= 1
			ok(t, os.WriteFile(full, b, 0o644))
			return d
		},
		"no answer": func(d *substrate.DirFS, file string) substrate.FS {
			return &faultfs.FS{FS: d, Hook: func(op faultfs.Op) (f faultfs.Fault) {
				if op.Name == "open" && op.Path == file {
					f.Err = syscall.EIO
				}
				return f
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := substrate.OpenDir(t.TempDir())
			ok(t, err)
			v, _ := populate(t, d)
			newest, err := metalog.Newest(v, v.MetaDir()+"/cluster")
			ok(t, err)
			file := substrate.EntryPath(v.MetaDir()+"/cluster", newest)
			was := v.ID
			v.FS = spoil(d, file)
			if _, err := RolledBack(t.Context(), v, opts()); err == nil {
				t.Error("it was restored to an older state")
			}
			if _, err := os.Stat(filepath.Join(d.Root(), file)); err != nil {
				t.Errorf("the entry: %v", err)
			}
			if now := reopen(t, d); now.ID != was {
				t.Errorf("the volume is %s now", now.ID)
			}
		})
	}
}
