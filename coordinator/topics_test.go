package coordinator

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections"
)

// what is made again under a name has nothing of what was there.
func TestDeleteAndMakeAgain(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	seen := map[projections.TopicID]bool{}
	var old projections.TopicID
	for i := range 8 {
		topic := create(t, b, "Orders.v1", 2)
		if seen[topic.ID] {
			t.Fatalf("ID %s was used before", topic.ID)
		}
		seen[topic.ID] = true
		if i > 0 {
			_, err := b.Partition(old, 0)
			wantCode(t, "the old ID", err, kerr.UnknownTopicID)
		}
		off, err := produce(ctx(t, time.Minute), b, topic.ID, fmt.Sprint(i))
		if err != nil || off != 0 {
			t.Fatalf("first offset %d, %v", off, err)
		}
		p := mustPartition(t, b, topic.ID, 0)
		if err := b.DeleteTopic(ctx(t, time.Minute), topic.ID); err != nil {
			t.Fatal(err)
		}
		select {
		case <-p.Done():
		default:
			t.Fatal("answered before the partition was closed")
		}
		wantCode(t, "delete again", b.DeleteTopic(ctx(t, time.Minute), topic.ID), kerr.UnknownTopicID)
		old = topic.ID
	}
	eventually(t, "all files are gone", func() bool {
		return len(topicDirs(t, dir)) == 0 && len(b.View().Removing()) == 0
	})
}

// A crash at any time after TopicDeleted leaves the removal to the next process.
func TestRemovalSurvivesAKill(t *testing.T) {
	for _, blocked := range []string{"rename", "remove"} {
		t.Run(blocked, func(t *testing.T) {
			dir := t.TempDir()
			v, f := mount(t, dir)
			b := start(t, v, options(t))
			topic := create(t, b, "a", 2)
			f.set(func(op, name string) error {
				if op == blocked && strings.HasPrefix(name, "topics/~deleted~") {
					return syscall.EBUSY
				}
				return nil
			})
			if err := b.DeleteTopic(ctx(t, time.Minute), topic.ID); err != nil {
				t.Fatal(err)
			}
			kill(t, b, f)
			if len(topicDirs(t, dir)) == 0 {
				t.Fatal("nothing was left to remove")
			}
			v2, _ := mount(t, dir)
			b2 := start(t, v2, options(t))
			eventually(t, "the files are gone", func() bool { return len(topicDirs(t, dir)) == 0 && len(b2.View().Removing()) == 0 })
		})
	}
}

// names from the wire never become paths.
func TestHostileNames(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "data")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	canary := filepath.Join(outer, "canary")
	if err := os.WriteFile(canary, []byte("alive"), 0o644); err != nil {
		t.Fatal(err)
	}
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	names := []string{"", ".", "..", "../canary", "../../etc", "/", "/etc/passwd", "a/b", "a/../b", "./a", "a\\b", "..\\canary",
		"a\x00b", "\x00", "a\nb", "a b", " ", "~deleted~x", "~new~x~y", "ä", "名前", "\xff\xfe", "%2e%2e%2f", "a:b", "a*", "$(x)",
		"{a}", "a;b", strings.Repeat("x", 250), strings.Repeat("../", 80), "CON:", "a\tb"}
	for _, name := range names {
		_, err := b.CreateTopic(ctx(t, time.Minute), TopicSpec{Name: name, Partitions: 1}, false)
		wantCode(t, fmt.Sprintf("%q", name), err, kerr.InvalidTopicException)
	}
	if got := topicDirs(t, dir); len(got) != 0 {
		t.Errorf("stray files: %q", got)
	}
	for _, name := range []string{"UPPER", "a.b", "...", "-", "_", strings.Repeat("x", 249)} {
		topic := create(t, b, name, 1)
		if b.View().Topic(name).ID != topic.ID {
			t.Errorf("%q is not found", name)
		}
		if err := b.DeleteTopic(ctx(t, time.Minute), topic.ID); err != nil {
			t.Errorf("delete %q: %v", name, err)
		}
	}
	for id := range 3 {
		wantCode(t, "delete of an unknown ID", b.DeleteTopic(ctx(t, time.Minute), projections.TopicID{byte(id)}), kerr.UnknownTopicID)
	}
	eventually(t, "no topic is left", func() bool { return len(topicDirs(t, dir)) == 0 })
	if got, err := os.ReadFile(canary); err != nil || string(got) != "alive" {
		t.Errorf("canary: %q, %v", got, err)
	}
	es, _ := os.ReadDir(outer)
	if len(es) != 2 {
		t.Errorf("beside the data: %v", es)
	}
}

func TestCreateTopicRefusals(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	create(t, b, "a.b", 1)
	eventually(t, "one directory", func() bool { return len(topicDirs(t, dir)) == 1 })
	for name, tc := range map[string]struct {
		spec TopicSpec
		want *kerr.Error
	}{
		"exists":          {TopicSpec{Name: "a.b", Partitions: 1}, kerr.TopicAlreadyExists},
		"collides":        {TopicSpec{Name: "a_b", Partitions: 1}, kerr.InvalidTopicException},
		"no partitions":   {TopicSpec{Name: "c", Partitions: 0}, kerr.InvalidPartitions},
		"negative":        {TopicSpec{Name: "c", Partitions: -1}, kerr.InvalidPartitions},
		"absurd":          {TopicSpec{Name: "c", Partitions: 1 << 30}, kerr.InvalidPartitions},
		"unknown config":  {TopicSpec{Name: "c", Partitions: 1, Configs: map[string]string{"x": "y"}}, kerr.InvalidConfig},
		"invalid config":  {TopicSpec{Name: "c", Partitions: 1, Configs: map[string]string{"retention.ms": "soon"}}, kerr.InvalidConfig},
		"tiered storage":  {TopicSpec{Name: "c", Partitions: 1, Configs: map[string]string{"remote.storage.enable": "true"}}, kerr.InvalidConfig},
		"name before all": {TopicSpec{Name: "a/b", Partitions: 0}, kerr.InvalidTopicException},
	} {
		for _, only := range []bool{true, false} {
			_, err := b.CreateTopic(ctx(t, time.Minute), tc.spec, only)
			wantCode(t, name, err, tc.want)
		}
	}
	topic, err := b.CreateTopic(ctx(t, time.Minute), TopicSpec{Name: "c", Partitions: 3, Configs: map[string]string{"retention.ms": "5"}}, true)
	if err != nil || !topic.ID.IsZero() || len(topic.Partitions) != 3 || topic.Configs["retention.ms"] != "5" {
		t.Fatalf("preview %+v, %v", topic, err)
	}
	if b.View().Topic("c") != nil || len(topicDirs(t, dir)) != 1 {
		t.Errorf("something was made: %v", topicDirs(t, dir))
	}
}

func TestOneOfManyMakesTheTopic(t *testing.T) {
	dir := t.TempDir()
	v, _ := mount(t, dir)
	b := start(t, v, options(t))
	var made, existed atomic.Int32
	together(20, func(i int) {
		name := []string{"a.b", "a_b"}[i%2] // they collide
		_, err := b.CreateTopic(ctx0(time.Minute), TopicSpec{Name: name, Partitions: 2}, false)
		switch {
		case err == nil:
			made.Add(1)
		case errors.Is(err, kerr.TopicAlreadyExists):
			existed.Add(1)
			if topic := b.View().Topic(name); topic == nil {
				t.Errorf("%s exists, but is not in the view", name)
			} else if _, err := b.Partition(topic.ID, 1); err != nil {
				t.Errorf("%s exists, but is not open: %v", name, err)
			}
		case !errors.Is(err, kerr.InvalidTopicException):
			t.Errorf("create: %v", err)
		}
	})
	if made.Load() != 1 || existed.Load() != 9 {
		t.Errorf("%d made, %d existed; want 1 and 9", made.Load(), existed.Load())
	}
	eventually(t, "the loser's directory is gone", func() bool { return len(topicDirs(t, dir)) == 1 })
}

func TestCreateOnAFullVolume(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	create(t, b, "before", 1)
	for name, match := range map[string]func(op, name string) bool{
		"building":   func(op, name string) bool { return op == "write" && strings.HasPrefix(name, "topics/") },
		"publishing": func(op, name string) bool { return op == "write" && strings.HasPrefix(name, "meta/") },
	} {
		t.Run(name, func(t *testing.T) {
			f.set(func(op, name string) error {
				if match(op, name) {
					return syscall.ENOSPC
				}
				return nil
			})
			_, err := b.CreateTopic(ctx(t, time.Minute), TopicSpec{Name: "x", Partitions: 1}, false)
			f.heal()
			wantCode(t, "create", err, kerr.KafkaStorageError)
			if !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("%v does not say why", err)
			}
			eventually(t, "nothing is left of it", func() bool { return len(topicDirs(t, dir)) == 1 })
			topic := create(t, b, "x", 1)
			if err := b.DeleteTopic(ctx(t, time.Minute), topic.ID); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is removed", func() bool { return len(topicDirs(t, dir)) == 1 })
		})
	}
}

// What a process had begun to build when it was killed goes with its session; what
// is not ours, or has no metadata, stays.
func TestLeftoversOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	b := start(t, v, options(t))
	session := b.leading().s.ID()
	kill(t, b, f)
	stray := projections.NewTopicID().String()
	mine := []string{"~new~" + session + "~n1", "~deleted~" + stray}
	keep := []string{stray, "lost+found", ".snapshot"}
	for _, name := range append(slices.Clone(mine), keep...) {
		if err := os.MkdirAll(filepath.Join(dir, "topics", name, "0"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	v2, _ := mount(t, dir)
	b2 := start(t, v2, options(t))
	living := "~new~" + b2.leading().s.ID() + "~n2"
	if err := os.Mkdir(filepath.Join(dir, "topics", living), 0o755); err != nil {
		t.Fatal(err)
	}
	keep = append(keep, living)
	slices.Sort(keep)
	eventually(t, "leftovers are gone, and nothing else", func() bool {
		// But for what is on its way out.
		got := slices.DeleteFunc(topicDirs(t, dir), func(name string) bool {
			return strings.HasPrefix(name, "~deleted~new") || name != mine[1] && strings.HasPrefix(name, "~deleted~")
		})
		return slices.Equal(got, keep)
	})
}

func TestUnknownPartitions(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	topic := create(t, b, "a", 2)
	for _, i := range []int32{-1, 2, 1 << 30} {
		_, err := b.Partition(topic.ID, i)
		wantCode(t, fmt.Sprint(i), err, kerr.UnknownTopicOrPartition)
	}
	_, err := b.Partition(projections.TopicID{}, 0)
	wantCode(t, "zero ID", err, kerr.UnknownTopicID)
}
