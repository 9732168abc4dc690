package substrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
)

// hanging is a directory in which calls on some names never return until released.
func hanging(t testing.TB) (fs *faultfs.FS, hang func(match string), release func()) {
	t.Helper()
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var match atomic.Pointer[string]
	free := make(chan struct{})
	fs = &faultfs.FS{FS: d, Hook: func(op faultfs.Op) faultfs.Fault {
		if m := match.Load(); m != nil && strings.Contains(op.Path, *m) {
			<-free
		}
		return faultfs.Fault{}
	}}
	release = sync.OnceFunc(func() { match.Store(nil); close(free) })
	t.Cleanup(release)
	return fs, func(m string) { match.Store(&m) }, release
}

func mkdirs(t testing.TB, fs substrate.FS, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := fs.Mkdir(name); err != nil {
			t.Fatal(err)
		}
	}
}

// What hangs in one partition takes that partition's places and nobody else's.
func TestPoolBoundsAnOwner(t *testing.T) {
	raw, hang, release := hanging(t)
	p := substrate.NewPool(raw, substrate.PoolLimits{Volume: 20, Reads: 3, Changes: 2})
	mkdirs(t, p, "topics", "topics/a", "topics/a/0", "topics/a/1", "sessions")
	hang("topics/a/0")
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { _, _ = p.List("topics/a/0") })
		wg.Go(func() { _ = p.Mkdir(fmt.Sprintf("topics/a/0/%d", i)) })
	}
	eventually(t, "5 calls are on their way", func() bool { return p.InFlight() == 5 })
	time.Sleep(20 * time.Millisecond)
	if n := p.InFlight(); n != 5 {
		t.Errorf("%d calls are on their way, 3 reads and 2 changes may be", n)
	}
	for i := range 100 {
		mkdirs(t, p, fmt.Sprintf("topics/a/1/%d", i), fmt.Sprintf("sessions/%d", i))
	}
	release()
	wg.Wait()
	if n := p.InFlight(); n != 0 {
		t.Errorf("%d calls are left", n)
	}
}

// Partitions that hang, however many, keep neither sessions nor metadata waiting.
func TestPoolKeepsTheBrokersOwnCalls(t *testing.T) {
	raw, hang, release := hanging(t)
	p := substrate.NewPool(raw, substrate.PoolLimits{Volume: 8, Reads: 4, Changes: 4})
	mkdirs(t, p, "topics", "sessions", "meta")
	hang("topics/")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() { _, _ = p.List(fmt.Sprintf("topics/a/%d", i)) })
	}
	eventually(t, "the volume's places are taken", func() bool { return p.InFlight() == 8 })
	for i := range 50 {
		mkdirs(t, p, fmt.Sprintf("sessions/%d", i), fmt.Sprintf("meta/%d", i))
	}
	release()
	wg.Wait()
}

// However many ask while the volume hangs, threads and places are bounded.
func TestPoolBoundsThreads(t *testing.T) {
	var fifos []string
	dir := t.TempDir()
	d, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := substrate.NewPool(d, substrate.PoolLimits{Volume: 12, Reads: 4, Changes: 4})
	mkdirs(t, p, "topics", "topics/a")
	for i := range 10 {
		mkdirs(t, p, fmt.Sprintf("topics/a/%d", i))
		fifo := fmt.Sprintf("%s/topics/a/%d/f", dir, i)
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Skipf("no named pipes here: %v", err)
		}
		fifos = append(fifos, fifo)
	}
	before := threads(t)
	lane := substrate.NewLane(64)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	var wg, calls sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			_, err := substrate.Do(ctx, lane, func() (substrate.File, error) {
				calls.Add(1)
				defer calls.Done()
				return p.Open(fmt.Sprintf("topics/a/%d/f", i%10)) // the open of a pipe without a writer pins a thread
			}, closeLate)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()                                                             // all have stopped waiting
	if grown := threads(t) - before; grown > 12+8+runtime.GOMAXPROCS(0) { // those that run Go's code, too
		t.Errorf("%d threads more for 12 places", grown)
	}
	if n := runtime.NumGoroutine(); n > 64+50 {
		t.Errorf("%d goroutines for a lane of 64", n)
	}
	for _, fifo := range fifos { // a writer for each lets the opens return
		f, err := os.OpenFile(fifo, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	calls.Wait()
	eventually(t, "everything has returned", func() bool { return p.InFlight() == 0 && len(lane) == 0 })
}

func closeLate(f substrate.File, err error) {
	if err == nil {
		_ = f.Close()
	}
}

func threads(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Skipf("threads cannot be counted here: %v", err)
	}
	return len(es)
}

func TestDo(t *testing.T) {
	lane := substrate.NewLane(1)
	one := func() (int, error) { return 1, nil }
	for _, ctx := range []context.Context{context.Background(), t.Context()} {
		if n, err := substrate.Do(ctx, lane, one, nil); n != 1 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	hold, late := make(chan struct{}), make(chan int, 1)
	began := make(chan struct{})
	go func() { <-began; cancel() }()
	_, err := substrate.Do(ctx, lane, func() (int, error) { close(began); <-hold; return 2, nil }, func(n int, _ error) { late <- n })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := substrate.Do(ctx, lane, one, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the place is taken, got %v", err)
	}
	close(hold)
	if n := <-late; n != 2 {
		t.Errorf("late answer is %d", n)
	}
}

func TestPoolTellsOfAFullVolume(t *testing.T) {
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	fail := syscall.Errno(0)
	p := substrate.NewPool(&faultfs.FS{FS: d, Hook: func(op faultfs.Op) faultfs.Fault {
		if fail != 0 && (op.Name == "write" || op.Name == "close" || op.Name == "datasync" || op.Name == "rename" || op.Name == "mkdir") {
			return faultfs.Fault{Err: fail}
		}
		return faultfs.Fault{}
	}}, substrate.PoolLimits{})
	told := 0
	p.OnFull(func() { told++ })
	f, err := p.CreateExclusive("f")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteAt([]byte("x"), 0)
	if fail = syscall.EIO; p.Mkdir("d") == nil || told != 0 {
		t.Errorf("told %d times of EIO", told)
	}
	fail = syscall.EDQUOT
	_, werr := f.WriteAt([]byte("x"), 0)
	for i, err := range []error{werr, f.Datasync(), f.Close(), p.Rename("f", "g"), p.Mkdir("d")} {
		if !errors.Is(err, syscall.EDQUOT) || told < i+1 {
			t.Errorf("call %d: %v, told %d times", i, err, told)
		}
	}
}

func TestFree(t *testing.T) {
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n, err := substrate.Free(substrate.NewPool(d, substrate.PoolLimits{}))
	if err != nil || n <= 0 {
		t.Errorf("%d bytes are free, %v", n, err)
	}
	if _, err := substrate.Free(&faultfs.FS{FS: d}); !errors.Is(err, substrate.ErrNoSpacer) {
		t.Errorf("got %v", err)
	}
}

// A pool is the FS that it bounds.
func TestPoolIsAnFS(t *testing.T) {
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v, err := substrate.OpenVolume(substrate.NewPool(d, substrate.PoolLimits{Reads: 1, Changes: 1, Volume: 1}), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := v.EnsureDir("topics"); err != nil {
		t.Fatal(err)
	}
	if err := v.ReplaceFile("topics", "f", "s", []byte("data")); err != nil {
		t.Fatal(err)
	}
	got, err := v.ReadFile("topics/f")
	if err != nil || !bytes.Equal(got, []byte("data")) {
		t.Errorf("got %q, %v", got, err)
	}
	if err := v.RemoveTree("topics"); err != nil {
		t.Error(err)
	}
	s, err := v.OpenSession(substrate.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	_ = s.Close(t.Context())
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// BenchmarkPool is what a bounded read of cached bytes costs: bare, through the pool,
// and beside a waiter whose context can end.
func BenchmarkPool(b *testing.B) {
	d, err := substrate.OpenDir(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p := substrate.NewPool(d, substrate.PoolLimits{})
	mkdirs(b, d, "topics", "topics/a", "topics/a/0")
	for _, size := range []int{4 << 10, 64 << 10} {
		w, err := d.CreateExclusive(fmt.Sprintf("topics/a/0/%d", size))
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, size)
		_, _ = w.WriteAt(buf, 0)
		bare, err := d.Open(fmt.Sprintf("topics/a/0/%d", size))
		if err != nil {
			b.Fatal(err)
		}
		pooled, err := p.Open(fmt.Sprintf("topics/a/0/%d", size))
		if err != nil {
			b.Fatal(err)
		}
		lane := substrate.NewLane(16)
		for name, read := range map[string]func() error{
			"bare":   func() error { _, err := bare.ReadAt(buf, 0); return err },
			"pooled": func() error { _, err := pooled.ReadAt(buf, 0); return err },
			"beside": func() error {
				_, err := substrate.Do(ctx, lane, func() (int, error) { return pooled.ReadAt(buf, 0) }, nil)
				return err
			},
		} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, name), func(b *testing.B) {
				for b.Loop() {
					if err := read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		_, _, _ = w.Close(), bare.Close(), pooled.Close()
	}
}
