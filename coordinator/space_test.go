package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sys/unix"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

// roomy is a faulty FS that tells the free space a test wants.
type roomy struct {
	*faulty
	free atomic.Int64
}

func (r *roomy) Free() (int64, error) { return r.free.Load(), nil }

func mountRoomy(t *testing.T, dir string, free int64) (*substrate.Volume, *roomy) {
	t.Helper()
	d, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &roomy{faulty: &faulty{DirFS: d}}
	r.free.Store(free)
	v, err := substrate.OpenVolume(substrate.NewPool(r, substrate.PoolLimits{}), "")
	if err != nil {
		t.Fatal(err)
	}
	return v, r
}

func spaceOptions(t *testing.T) Options {
	opt := options(t)
	opt.MinFree, opt.Ballast, opt.SpaceInterval = 64<<20, 1<<20, 10*time.Millisecond
	return opt
}

func ballast(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "~deleted~ballast~1"))
	return err == nil
}

// Below storage.min.free.bytes records are refused, and nothing else is.
func TestRecordsAreRefusedWhileThereIsLittleRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		v, r := mountRoomy(t, dir, 1<<30)
		b := start(t, v, spaceOptions(t))
		eventually(t, "there is a ballast", func() bool { return ballast(dir) })
		topic := create(t, b, "a", 1)
		p := mustPartition(t, b, topic.ID, 0)
		if _, err := produce(ctx(t, time.Minute), b, topic.ID, "x"); err != nil {
			t.Fatal(err)
		}
		r.free.Store(60 << 20)
		eventually(t, "records are refused", func() bool { return b.space.room(0) != nil })
		_, err := produce(ctx(t, time.Minute), b, topic.ID, "y")
		wantCode(t, "produce", err, kerr.KafkaStorageError)
		if !strings.Contains(err.Error(), "storage.min.free.bytes") {
			t.Errorf("the error does not tell why: %v", err)
		}
		if _, err := p.Read(ctx(t, time.Minute), 0, 100, true); err != nil {
			t.Errorf("read: %v", err)
		}
		other := create(t, b, "b", 1)
		if err := b.DeleteTopic(ctx(t, time.Minute), other.ID); err != nil {
			t.Error(err)
		}
		if !ballast(dir) {
			t.Error("the ballast is given up while there is room")
		}
		r.free.Store(1 << 30)
		eventually(t, "records are taken", func() bool { _, err := produce(ctx(t, time.Minute), b, topic.ID, "z"); return err == nil })
		if got := mustPartition(t, b, topic.ID, 0); got != p {
			t.Error("the partition was opened anew")
		}
	})
}

// A volume that says it is full, like one with a quota, is believed until it takes
// something again; the ballast is given up meanwhile.
func TestVolumeThatSaysItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		v, r := mountRoomy(t, dir, 1<<30)
		b := start(t, v, spaceOptions(t))
		eventually(t, "there is a ballast", func() bool { return ballast(dir) })
		topic := create(t, b, "a", 1)
		if _, err := produce(ctx(t, time.Minute), b, topic.ID, "kept"); err != nil {
			t.Fatal(err)
		}
		var writes atomic.Int64
		r.set(func(op, name string) error {
			big := strings.HasPrefix(name, "~") && op == "datasync" // what tries for room
			if op == "write" && strings.HasSuffix(name, ".log") {
				writes.Add(1)
			}
			if big || op == "write" && strings.HasSuffix(name, ".log") {
				return syscall.EDQUOT
			}
			return nil
		})
		_, err := produce(ctx(t, time.Minute), b, topic.ID, "lost")
		wantCode(t, "produce", err, kerr.KafkaStorageError)
		eventually(t, "the ballast is given up", func() bool { return !ballast(dir) })
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
			_, err := produce(ctx(t, time.Minute), b, topic.ID, "lost")
			wantCode(t, "produce", err, kerr.KafkaStorageError)
			time.Sleep(time.Millisecond)
		}
		if n := writes.Load(); n > 3 {
			t.Errorf("%d records were tried on a volume that is full", n)
		}
		eventually(t, "it can be read", func() bool {
			p, err := b.Partition(topic.ID, 0)
			if err != nil {
				return false
			}
			_, hw, _ := p.Offsets()
			return hw == 1
		})
		create(t, b, "b", 1) // metadata goes on
		r.heal()
		var off int64
		eventually(t, "records are taken", func() (ok bool) {
			off, err = produce(ctx(t, time.Minute), b, topic.ID, "next")
			return err == nil
		})
		if off != 1 {
			t.Errorf("offset %d, want the one that failed", off)
		}
		eventually(t, "there is a ballast again", func() bool { return ballast(dir) })
	})
}

// ENOSPC on a Check means not acknowledged, and not fenced.
func TestNoSpaceForACheckIsNotAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		v, r := mountRoomy(t, dir, 1<<30)
		opt := spaceOptions(t)
		opt.PartitionConfig = func(*projections.Cluster, *projections.Topic) partition.Config {
			return partition.Config{StallAfter: 2 * time.Second}
		}
		b := start(t, v, opt)
		topic := create(t, b, "a", 1)
		session := b.data.Load().s
		if _, err := produce(ctx(t, time.Minute), b, topic.ID, "kept"); err != nil {
			t.Fatal(err)
		}
		r.set(func(op, name string) error {
			if op == "rename" && strings.HasPrefix(name, "sessions/") {
				return syscall.ENOSPC
			}
			return nil
		})
		_, err := produce(ctx(t, time.Minute), b, topic.ID, "lost")
		wantCode(t, "produce", err, kerr.KafkaStorageError)
		r.heal()
		eventually(t, "it is back", func() bool { off, err := produce(ctx(t, time.Minute), b, topic.ID, "x"); return err == nil && off == 1 })
		if now := b.data.Load(); now == nil || now.s != session || session.IsFenced() || b.Err() != nil {
			t.Errorf("the session was lost: %v", b.Err())
		}
	})
}

// One partition that hangs slows no other one, keeps descriptors and threads bounded, and
// comes back by itself.
func TestHungPartitionStandsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		v, r := mountRoomy(t, dir, 1<<30)
		opt := spaceOptions(t)
		opt.PartitionConfig = func(*projections.Cluster, *projections.Topic) partition.Config {
			return partition.Config{StallAfter: 2 * time.Second}
		}
		b := start(t, v, opt)
		hung, well := create(t, b, "hung", 3), create(t, b, "well", 2)
		for _, topic := range []*projections.Topic{hung, well} {
			if _, err := produce(ctx(t, time.Minute), b, topic.ID, "first"); err != nil {
				t.Fatal(err)
			}
		}
		other := mustPartition(t, b, well.ID, 0)
		session := b.data.Load()
		hold := make(chan struct{})
		release := func() { r.heal(); close(hold) }
		r.set(func(op, name string) error {
			if strings.HasPrefix(name, "topics/"+hung.ID.String()+"/0/") {
				<-hold
			}
			return nil
		})
		threads := count(t, "/proc/self/task")
		_, err := produce(ctx(t, time.Minute), b, hung.ID, "lost")
		wantCode(t, "produce", err, kerr.KafkaStorageError)
		slowest := time.Duration(0)
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			began := time.Now()
			if _, err := produce(ctx(t, time.Minute), b, well.ID, "x"); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, time.Since(began))
			time.Sleep(10 * time.Millisecond)
			_, err := produce(ctx(t, time.Minute), b, hung.ID, "y")
			wantCode(t, "produce", err, kerr.KafkaStorageError)
		}
		t.Logf("slowest produce beside it %v", slowest)
		if slowest > 100*time.Millisecond {
			t.Error("the partition beside it was slowed down")
		}
		create(t, b, "new", 2)
		if n := count(t, "/proc/self/task"); n > threads+32 {
			t.Errorf("%d threads, %d before", n, threads)
		}
		release()
		eventually(t, "it is back", func() bool {
			off, err := produce(ctx(t, time.Minute), b, hung.ID, "next")
			return err == nil && off == 1
		})
		if mustPartition(t, b, well.ID, 0) != other || b.data.Load() != session {
			t.Error("others were disturbed")
		}
	})
}

// Stop closes the cluster stream and all that works, while one partition hangs.
func TestStopBesideAHungPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		v, r := mountRoomy(t, dir, 1<<30)
		b := start(t, v, spaceOptions(t))
		topic := create(t, b, "a", 3)
		stop(t, b)
		v, r = mountRoomy(t, dir, 1<<30)
		hold := make(chan struct{})
		defer func() { r.heal(); close(hold) }()
		r.set(func(op, name string) error {
			if strings.HasPrefix(name, "topics/"+topic.ID.String()+"/1/") {
				<-hold
			}
			return nil
		})
		b = start(t, v, spaceOptions(t))
		eventually(t, "the others are open", func() bool {
			_, err := b.Partition(topic.ID, 0)
			_, err2 := b.Partition(topic.ID, 2)
			return err == nil && err2 == nil
		})
		began := time.Now()
		c, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		l := b.leading()
		_ = b.Stop(c) // the session cannot be closed while its call hangs
		if l.w.Committed().Pos.Seq < 2 || time.Since(began) > 4*time.Second {
			t.Errorf("the stream was not closed, at %v after %v", l.w.Committed().Pos, time.Since(began))
		}
	})
}

func count(t *testing.T, dir string) int {
	t.Helper()
	es, err := os.ReadDir(dir)
	if err != nil {
		t.Skipf("%v", err)
	}
	return len(es)
}

// CASES N-02 on a real file system of 64 MiB: produce until it is full, read on, make
// topics and delete them, start again while it is full, go on when there is room.
func TestFullFileSystem(t *testing.T) {
	dir := smallDir(t, 64)
	for _, min := range []int64{0, 12 << 20} {
		t.Run(fmt.Sprintf("min.free=%d", min), func(t *testing.T) {
			sub := filepath.Join(dir, fmt.Sprint(min))
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			fillUp(t, sub, min)
			if err := os.RemoveAll(sub); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func fillUp(t *testing.T, dir string, minFree int64) {
	opt := spaceOptions(t)
	opt.MinFree, opt.Ballast = minFree, 4<<20
	b := start(t, mountPool(t, dir), opt)
	eventually(t, "there is a ballast", func() bool { return ballast(dir) })
	big, small := create(t, b, "big", 1), create(t, b, "small", 1)
	acked := map[string]map[int64]string{"big": {}, "small": {}}
	put := func(topic *projections.Topic, value string) error {
		off, err := produce(ctx(t, time.Minute), b, topic.ID, value)
		if err == nil {
			if acked[topic.Name][off] != "" {
				t.Fatalf("offset %d of %s was given twice", off, topic.Name)
			}
			acked[topic.Name][off] = value
		}
		return err
	}
	pad := strings.Repeat("x", 200<<10)
	var err error
	for i := 0; err == nil; i++ {
		if err = put(big, fmt.Sprintf("%d %s", i, pad)); err == nil {
			err = put(small, fmt.Sprint(i))
		}
	}
	wantCode(t, "produce on a full volume", err, kerr.KafkaStorageError)
	t.Logf("full after %d records: %v", len(acked["big"]), err)
	for range 50 { // nothing of it is shown, or leaves a hole
		if err := put(big, "tried "+pad); err != nil {
			wantCode(t, "produce on a full volume", err, kerr.KafkaStorageError)
		}
	}
	compare := func() {
		t.Helper()
		eventually(t, "it is served for reading", b.Ready)
		for _, topic := range []*projections.Topic{big, small} {
			p := mustPartition(t, b, topic.ID, 0)
			_, hw, _ := p.Offsets()
			if int(hw) != len(acked[topic.Name]) {
				t.Fatalf("%s ends at %d, acknowledged were %d", topic.Name, hw, len(acked[topic.Name]))
			}
			for at := int64(0); at < hw; at++ {
				f, err := p.Read(ctx(t, time.Minute), at, 1, true)
				if err != nil || !strings.Contains(string(f.Records), acked[topic.Name][at]) {
					t.Fatalf("%s at %d: %v", topic.Name, at, err)
				}
			}
		}
		if err := b.CheckFresh(ctx(t, time.Minute)); err != nil {
			t.Error(err)
		}
	}
	compare()
	stop(t, b)
	// Others take what is left.
	hog := hogAll(t, dir)
	if !ballast(dir) { // it was given up already: no start is possible without any room
		if err := os.Truncate(hog, max(0, size(t, hog)-3<<20)); err != nil {
			t.Fatal(err)
		}
	}
	b = start(t, mountPool(t, dir), opt)
	compare()
	eventually(t, "the ballast is given up", func() bool { return !ballast(dir) })
	for err = nil; err == nil; {
		err = put(small, "the rest "+pad)
	}
	wantCode(t, "produce on a full volume", err, kerr.KafkaStorageError)
	gone := create(t, b, "made-while-full", 1)
	if err := b.DeleteTopic(ctx(t, time.Minute), gone.ID); err != nil {
		t.Error(err)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteTopic(ctx(t, time.Minute), big.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "records are taken again", func() bool { return put(small, "again") == nil })
	eventually(t, "there is a ballast again", func() bool { return ballast(dir) })
	for range 20 {
		if err := put(small, "more"); err != nil {
			t.Fatal(err)
		}
	}
	p := mustPartition(t, b, small.ID, 0)
	if _, hw, _ := p.Offsets(); int(hw) != len(acked["small"]) {
		t.Errorf("small ends at %d, acknowledged were %d", hw, len(acked["small"]))
	}
	stop(t, b)
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}

// hogAll fills what is left of a file system.
func hogAll(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(filepath.Dir(dir), "hog")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if n := int64(st.Bavail) * st.Bsize; n > 0 {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, n); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// TestManyTopicsLeaveRoom: topics that anybody may make do not take the room that
// deletion and the next start need.
func TestManyTopicsLeaveRoom(t *testing.T) {
	dir := smallDir(t, 24)
	opt := spaceOptions(t)
	opt.MinFree, opt.Ballast = 1<<20, 1<<20
	b := start(t, mountPool(t, dir), opt)
	var made []*projections.Topic
	refusals := 0
	for i := range 200 {
		topic, err := b.CreateTopic(ctx(t, time.Minute), TopicSpec{Name: fmt.Sprint("t", i), Partitions: 20}, false)
		switch {
		case err == nil:
			made = append(made, topic)
		case errors.Is(err, kerr.KafkaStorageError):
			refusals++
		default:
			t.Fatal(err)
		}
		if refusals > 20 {
			break
		}
	}
	if refusals == 0 || len(made) == 0 {
		t.Fatalf("%d topics were made, %d refused", len(made), refusals)
	}
	if err := b.DeleteTopic(ctx(t, time.Minute), made[0].ID); err != nil {
		t.Fatalf("a topic cannot be deleted: %v", err)
	}
	if err := b.Stop(ctx(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	again := start(t, mountPool(t, dir), opt)
	if again.View().TopicByID(made[1].ID) == nil {
		t.Fatal("a topic is missing after the next start")
	}
}

// smallDir is a file system of its own, of so many MiB.
func smallDir(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("a file system of %d MiB cannot be mounted here: %v", mib, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// mountPool is the volume as a broker has it: with bounded calls.
func mountPool(t *testing.T, dir string) *substrate.Volume {
	t.Helper()
	d, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, err := substrate.OpenVolume(substrate.NewPool(d, substrate.PoolLimits{}), "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}
