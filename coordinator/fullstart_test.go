package coordinator

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// begin starts a broker in the background. why has what Waiting was told, result the end.
func begin(c context.Context, v *substrate.Volume, opt Options) (why *atomic.Pointer[error], result chan error, started *atomic.Pointer[Broker]) {
	why, result, started = new(atomic.Pointer[error]), make(chan error, 1), new(atomic.Pointer[Broker])
	opt.Waiting = func(err error) { why.Store(&err) }
	go func() { // ends with c at the latest
		b, err := Start(c, v, opt)
		started.Store(b)
		result <- err
	}()
	return why, result, started
}

func waits(why *atomic.Pointer[error]) bool {
	err := why.Load()
	return err != nil && *err != nil && substrateFull(*err)
}

func substrateFull(err error) bool {
	return strings.Contains(err.Error(), "no room for this broker's session") && !strings.Contains(err.Error(), "\n")
}

// CASES N-02: a volume that has no room for anything does not end the process. It starts
// when there is room, and the volume is as it was until then.
func TestStartWaitsForRoom(t *testing.T) {
	for name, full := range map[string]error{"no room": syscall.ENOSPC, "quota": syscall.EDQUOT} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v, f := mount(t, dir)
			first := start(t, v, options(t))
			eventually(t, "ready", first.Ready) // what is half made would be cleared away
			stop(t, first)
			before := tree(t, dir)
			var tries atomic.Int64
			f.set(func(op, name string) error {
				switch op {
				case "create", "mkdir":
					tries.Add(1)
					return full
				case "write", "datasync":
					return full
				}
				return nil
			})
			why, result, started := begin(ctx(t, time.Minute), v, options(t))
			eventually(t, "it tells what it waits for", func() bool { return waits(why) })
			n := tries.Load()
			eventually(t, "it tries again", func() bool { return tries.Load() > n+3 })
			if after := tree(t, dir); !maps.Equal(before, after) {
				t.Errorf("the volume changed from %v to %v", before, after)
			}
			f.heal()
			if err := <-result; err != nil {
				t.Fatal(err)
			}
			b := started.Load()
			t.Cleanup(func() { _ = b.Stop(ctx0(time.Minute)) })
			if w := why.Load(); *w != nil {
				t.Errorf("it still waits: %v", *w)
			}
			create(t, b, "a", 1)
		})
	}
}

// A start that waits ends with its context, and other errors end it at once.
func TestStartThatWaitsCanEnd(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	stop(t, start(t, v, options(t)))
	f.set(func(op, _ string) error {
		if op == "create" || op == "mkdir" {
			return syscall.ENOSPC
		}
		return nil
	})
	c, cancel := context.WithCancel(ctx(t, time.Minute))
	why, result, _ := begin(c, v, options(t))
	eventually(t, "it waits", func() bool { return waits(why) })
	cancel()
	if err := <-result; !substrate.IsFull(err) {
		t.Errorf("it ends with %v", err)
	}

	why, result, _ = begin(ctx(t, time.Minute), v, options(t))
	eventually(t, "it waits", func() bool { return waits(why) })
	f.set(always(syscall.EROFS))
	if err := <-result; !errors.Is(err, syscall.EROFS) {
		t.Errorf("it ends with %v", err)
	}
	if w := why.Load(); *w != nil {
		t.Errorf("it still waits: %v", *w)
	}
}

// A start that fails for room after it took a session and an epoch is done anew.
func TestStartThatRunsOutOfRoomOnTheWay(t *testing.T) {
	dir := t.TempDir()
	v, f := mount(t, dir)
	stop(t, start(t, v, options(t)))
	f.set(once(syscall.ENOSPC, func(op, name string) bool { // the entry that registers the broker
		return op == "create" && strings.HasPrefix(path.Base(name), "~new~") && strings.HasPrefix(path.Base(path.Dir(name)), "0000")
	}))
	var told atomic.Bool
	opt := options(t)
	opt.Waiting = func(err error) {
		if err != nil && substrateFull(err) {
			told.Store(true)
		}
	}
	b := start(t, v, opt)
	if !told.Load() {
		t.Error("the start did not wait")
	}
	if e, err := metalog.NextEpoch(v, b.stream); err != nil || e != 4 { // 1 at the first start, 2 in vain
		t.Errorf("the next epoch is %d, %v", e, err)
	}
	create(t, b, "a", 1)
}

// The same on a real file system, filled to the last byte and with no ballast.
func TestStartOnAFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("a file system of 16 MiB cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	sub := dir + "/volume"
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	v, _ := mount(t, sub)
	b := start(t, v, options(t))
	topic := create(t, b, "a", 1)
	if _, err := produce(ctx(t, time.Minute), b, topic.ID, "kept"); err != nil {
		t.Fatal(err)
	}
	stop(t, b)
	hog := hogAll(t, sub)
	why, result, started := begin(ctx(t, time.Minute), v, options(t))
	eventually(t, "it waits", func() bool { return waits(why) })
	if err := os.Truncate(hog, size(t, hog)-startRoom/2); err != nil { // not enough
		t.Fatal(err)
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	b = started.Load()
	t.Cleanup(func() { _ = b.Stop(ctx0(time.Minute)) })
	eventually(t, "records are served and taken", func() bool {
		off, err := produce(ctx(t, time.Minute), b, topic.ID, "next")
		return err == nil && off == 1
	})
}
