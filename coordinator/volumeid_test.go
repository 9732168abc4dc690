package coordinator

import (
	"context"
	"errors"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/partition"
)

// newID gives the volume another ID, as kaas-meta does.
func newID(t *testing.T, fs substrate.FS, id string) {
	t.Helper()
	data, err := substrate.EncodeFile(substrate.KindVolume, 0, map[string]string{"id": id})
	if err == nil {
		v := &substrate.Volume{FS: fs}
		err = v.ReplaceFile("volume", "id", "test", data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A broker whose sessions are sealed, on a volume that has another ID by now, ends. It must
// not go on standing for controller of a cluster that is no more.
func TestBrokerEndsOnAnotherVolume(t *testing.T) {
	v, f := mount(t, t.TempDir())
	b := start(t, v, options(t))
	newID(t, f, "restored")
	if err := v.Seal(ctx(t, time.Minute), b.dataSession()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Done():
	case <-ctx(t, time.Minute).Done():
		t.Fatal("the broker goes on")
	}
	if err := b.Err(); !errors.Is(err, substrate.ErrFenced) || !strings.Contains(err.Error(), "restored") {
		t.Fatalf("it ended with %v", err)
	}
}

// The ID is replaced between a session's look at it and the session's birth: nothing has
// sealed that session, so it must look again.
func TestSessionIsOpenedOnTheVolumeThatItWas(t *testing.T) {
	v, f := mount(t, t.TempDir())
	b := newBroker(v, options(t))
	t.Cleanup(func() { b.abort(context.Background()) })
	changed := false
	f.set(func(op, name string) error {
		if op == "mkdir" && strings.HasPrefix(name, substrate.SessionsDir+"/") && !changed {
			changed = true
			newID(t, f.DirFS, "restored")
		}
		return nil
	})
	if _, err := b.openSession(substrate.RoleData); !changed || !errors.Is(err, substrate.ErrFenced) {
		t.Fatalf("a session was opened (ID replaced: %v): %v", changed, err)
	}
}

// What the cluster knows of a topic is in each partition's manifest, as of now.
func TestManifestsTellOfTheirTopic(t *testing.T) {
	v, _ := mount(t, t.TempDir())
	b := start(t, v, options(t))
	topic := create(t, b, "orders", 2)
	c := ctx(t, 5*time.Minute)
	about := func(index int32) *partition.About {
		t.Helper()
		m, _, err := metalog.ReadState(c, v, partition.ManifestStream(topic.ID, index), partition.ManifestSchema())
		if err != nil {
			t.Fatal(err)
		}
		return m.State.About
	}
	tells := func(index, partitions int32, configs map[string]string) {
		t.Helper()
		eventually(t, "the manifest tells of its topic", func() bool {
			a := about(index)
			return a != nil && a.Partitions == partitions && maps.Equal(a.Configs, configs) && a.Created == topic.CreatedAt.UnixMilli()
		})
	}
	tells(0, 2, nil)
	set := map[string]string{"retention.ms": "5000"}
	if err := b.AlterTopicConfigs(c, topic.ID, setTo("retention.ms", "5000"), false); err != nil {
		t.Fatal(err)
	}
	tells(0, 2, set)
	tells(1, 2, set)
	before := about(0).View
	if err := b.CreatePartitions(c, topic.ID, 3, false); err != nil {
		t.Fatal(err)
	}
	for i := range int32(3) {
		tells(i, 3, set)
	}
	if now := about(0).View; !before.Less(now) {
		t.Errorf("the view is %s, and was %s before", now, before)
	}
	ps, err := metalog.Positions(v, partition.ManifestStream(topic.ID, 0))
	if err != nil || len(ps) != 4 { // birth, leader, configs, partitions
		t.Errorf("%d entries of one partition (%v)", len(ps), err)
	}
}

// The files of a deleted topic are about to be removed when the volume comes back from a
// snapshot, in which the topic lives.
func TestRemovalOfATopicEndsWithTheVolume(t *testing.T) {
	v, f := mount(t, t.TempDir())
	b := start(t, v, options(t))
	topic := create(t, b, "orders", 1)
	dir := partition.TopicDir(topic.ID)
	tried := make(chan struct{}, 100)
	f.set(func(op, name string) error {
		if op == "rename" && strings.Contains(name, substrate.DeletedPrefix+topic.ID.String()) {
			tried <- struct{}{}
			return syscall.EIO
		}
		return nil
	})
	if err := b.DeleteTopic(ctx(t, time.Minute), topic.ID); err != nil {
		t.Fatal(err)
	}
	<-tried
	newID(t, f.DirFS, "restored")
	if _, err := v.SealAll(ctx(t, time.Minute), "nobody"); err != nil {
		t.Fatal(err)
	}
	for len(tried) > 0 {
		<-tried
	}
	f.heal()
	select {
	case <-b.Done():
	case <-ctx(t, time.Minute).Done():
		t.Fatal("the broker goes on")
	}
	stop(t, b)
	if there, err := exists(v, "topics", topic.ID.String()); err != nil || !there {
		t.Errorf("%s is gone (%v)", dir, err)
	}
}
