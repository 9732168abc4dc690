package partition

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
)

// sickVolume is a volume whose calls a test may refuse, or hold until they are released.
type sickVolume struct {
	*substrate.Volume
	dir  string
	hook atomic.Pointer[func(faultfs.Op) faultfs.Fault]
}

func newSickVolume(t testing.TB) *sickVolume {
	t.Helper()
	s := &sickVolume{dir: t.TempDir()}
	d := must(substrate.OpenDir(s.dir))(t)
	s.Volume = newVolume(t, substrate.NewPool(&faultfs.FS{FS: d, Hook: func(op faultfs.Op) faultfs.Fault {
		if h := s.hook.Load(); h != nil {
			return (*h)(op)
		}
		return faultfs.Fault{}
	}}, substrate.PoolLimits{}))
	return s
}

func (s *sickVolume) set(h func(faultfs.Op) faultfs.Fault) { s.hook.Store(&h) }
func (s *sickVolume) heal()                                { s.hook.Store(nil) }

// hang holds calls that match until the function it returns is called.
func (s *sickVolume) hang(t testing.TB, match func(faultfs.Op) bool) (release func()) {
	hold := make(chan struct{})
	s.set(func(op faultfs.Op) faultfs.Fault {
		if match(op) {
			<-hold
		}
		return faultfs.Fault{}
	})
	release = sync.OnceFunc(func() { s.heal(); close(hold) })
	t.Cleanup(release)
	return release
}

func onSegments(op faultfs.Op) bool { return strings.HasSuffix(op.Path, ".log") }

// openFiles are the descriptors below a directory that this process has.
func openFiles(t testing.TB, dir string) (out []string) {
	t.Helper()
	es, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skipf("descriptors cannot be listed here: %v", err)
	}
	for _, e := range es {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(name, dir+"/") {
			out = append(out, strings.TrimPrefix(name, dir+"/"))
		}
	}
	return out
}

// nothingOpen fails unless all files are closed. What lists a stream to prune it is its
// session's, and may be about to end.
func nothingOpen(t testing.TB, dir string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		left := openFiles(t, dir)
		if len(left) == 0 {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatalf("still open: %v", left)
		}
	}
}

// reopen opens the partition under the next epoch, as a broker does after a failure.
func reopen(t tb, s *substrate.Session, p *Partition, cfg Config) *Partition {
	t.Helper()
	ok(t, p.Abandon(context.Background()))
	cfg.After = p
	return open(t, s, p.LeaderEpoch()+1, cfg)
}

// CASES N-02 and N-03: whatever call fails, and however, what was not acknowledged is
// gone, its offset goes to the next batch, and nothing acknowledged is lost.
func TestFailedBytesAreGone(t *testing.T) {
	for _, op := range []string{"write", "datasync", "create", "syncdir", "rename", "close"} {
		for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
			for _, apply := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/%v", op, e, apply), func(t *testing.T) { failOnce(t, op, e, apply) })
			}
		}
	}
}

func failOnce(t *testing.T, op string, e syscall.Errno, apply bool) {
	v := newSickVolume(t)
	s := newSession(t, v.Volume)
	cfg := testConfig()
	cfg.SegmentBytes = 600 // so that segments are made and named meanwhile
	p := open(t, s, 1, cfg)
	acked := map[int64]string{}
	appendOne := func(value string) error {
		a, err := p.Append(context.Background(), rec(0, value))
		if err == nil {
			err = a.Wait(context.Background())
		}
		if err == nil {
			acked[a.BaseOffset] = value
		}
		return err
	}
	for i := range 5 {
		ok(t, appendOne(fmt.Sprintf("before-%d", i)))
	}
	v.set(faultfs.Once(1, faultfs.Fault{Err: e, Apply: apply}, func(o faultfs.Op) bool {
		return o.Name == op && strings.HasPrefix(o.Path, "topics/")
	}))
	failed := ""
	for i := range 20 { // until one meets it
		failed = fmt.Sprintf("during-%d", i)
		if err := appendOne(failed); err != nil {
			wantCode(t, err, kerr.KafkaStorageError)
			if !errors.Is(err, e) {
				t.Errorf("the error does not tell why: %v", err)
			}
			break
		}
		failed = ""
	}
	v.heal()
	if failed == "" { // such a fault is passed over: nothing was lost by it
		if op == "write" || op == "datasync" {
			t.Error("the fault was not noticed")
		}
	} else {
		if _, err := p.Append(context.Background(), rec(0, "x")); err == nil {
			t.Error("a failed partition takes appends")
		}
		ok(t, p.Abandon(context.Background()))
		nothingOpen(t, v.dir)
		p = reopen(t, s, p, cfg)
	}
	ok(t, appendOne("after"))
	got := values(t, p)
	if len(got) != len(acked) {
		t.Errorf("%d records, acknowledged were %d: %v", len(got), len(acked), got)
	}
	for off, value := range acked {
		if off >= int64(len(got)) || got[off] != value {
			t.Errorf("offset %d does not hold %s: %v", off, value, got)
		}
	}
	if slices.Contains(got, failed) && failed != "" {
		t.Errorf("%s failed, and is shown", failed)
	}
	ok(t, p.Relinquish(context.Background()))
	nothingOpen(t, v.dir)
}

// After its own failure a leader goes on in a new segment and copies nothing: what it
// had committed it has synced, and a full volume has no room for it twice.
func TestOwnTailIsNotCopied(t *testing.T) {
	v := newSickVolume(t)
	s := newSession(t, v.Volume)
	p := open(t, s, 1, testConfig())
	appendN(t, p, 20)
	v.set(faultfs.Once(1, faultfs.Fault{Err: syscall.EIO}, func(o faultfs.Op) bool { return o.Name == "datasync" && onSegments(o) }))
	a, err := p.Append(context.Background(), rec(0, "lost"))
	ok(t, err)
	wantCode(t, a.Wait(context.Background()), kerr.KafkaStorageError)
	v.set(func(o faultfs.Op) faultfs.Fault {
		if o.Name == "create" && onSegments(o) {
			return faultfs.Fault{Err: syscall.ENOSPC}
		}
		return faultfs.Fault{}
	})
	q := reopen(t, s, p, testConfig())
	abandon(t, q)
	if _, hw, _ := q.Offsets(); hw != 20 {
		t.Errorf("high watermark %d", hw)
	}
	if got := values(t, q); len(got) != 20 || slices.Contains(got, "lost") {
		t.Errorf("got %v", got)
	}
	v.heal()
	if off := appendOne(t, q, rec(0, "after")); off != 20 {
		t.Errorf("offset %d", off)
	}
}

// Another process knows nothing of what was acknowledged and adopts the whole tail.
func TestTailOfAnotherProcessIsAdopted(t *testing.T) {
	v := newSickVolume(t)
	p := open(t, newSession(t, v.Volume), 1, testConfig())
	appendN(t, p, 3)
	ok(t, p.Abandon(context.Background()))
	q := open(t, newSession(t, v.Volume), 2, testConfig())
	abandon(t, q)
	if got := values(t, q); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

// CASES N-07: a commit that hangs fails the partition after a while; what hangs keeps its
// descriptor until it returns, and the partition comes back after that.
func TestHungCommitFails(t *testing.T) {
	for _, op := range []string{"write", "datasync", "create", "rename"} {
		t.Run(op, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { hangInCommit(t, op) }) })
	}
}

func hangInCommit(t *testing.T, op string) {
	v := newSickVolume(t)
	s := newSession(t, v.Volume)
	cfg := testConfig()
	cfg.StallAfter = time.Second
	p := open(t, s, 1, cfg)
	if op != "create" { // the first append makes a segment
		appendOne(t, p, rec(0, "first"))
	}
	release := v.hang(t, func(o faultfs.Op) bool {
		return o.Name == op && (onSegments(o) || op == "rename" && strings.HasPrefix(o.Path, "sessions/"))
	})
	a, err := p.Append(context.Background(), rec(0, "hung"))
	ok(t, err)
	began := time.Now()
	wantCode(t, a.Wait(context.Background()), kerr.KafkaStorageError)
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := p.Abandon(ctx); op != "rename" && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("abandon returned %v while a call hangs", err)
	}
	release()
	q := reopen(t, s, p, testConfig())
	abandon(t, q)
	appendOne(t, q, rec(0, "next"))
	got := values(t, q)
	if slices.Contains(got, "hung") || got[len(got)-1] != "next" {
		t.Errorf("got %v", got)
	}
}

// Reads that hang let their readers go, and do not pile up.
func TestHungReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSickVolume(t)
		cfg := testConfig()
		cfg.StallAfter = 2 * time.Second
		p := open(t, newSession(t, v.Volume), 1, cfg)
		abandon(t, p)
		appendN(t, p, 5)
		release := v.hang(t, func(o faultfs.Op) bool { return o.Name == "read" && onSegments(o) })
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := p.Read(ctx, 0, 100, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		before := runtime.NumGoroutine()
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() {
				_, err := p.Read(context.Background(), 0, 100, true)
				wantCode(t, err, kerr.KafkaStorageError)
			})
		}
		wg.Wait()
		if grown := runtime.NumGoroutine() - before; grown > readPlaces {
			t.Errorf("%d goroutines are left by reads that hang", grown)
		}
		began := time.Now()
		for range 100 { // known to hang: nobody waits again
			_, err := p.Read(t.Context(), 0, 100, true)
			wantCode(t, err, kerr.KafkaStorageError)
			_, _, _, err = p.OffsetForTimestamp(t.Context(), 1)
			wantCode(t, err, kerr.KafkaStorageError)
		}
		if d := time.Since(began); d > cfg.StallAfter {
			t.Errorf("100 reads of what hangs took %v", d)
		}
		appendOne(t, p, rec(0, "written meanwhile"))
		release()
		deadline := time.Now().Add(5 * time.Second)
		for {
			if _, err := p.Read(t.Context(), 0, 100, true); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("reads do not come back")
			}
			time.Sleep(time.Millisecond)
		}
		if got := values(t, p); len(got) != 6 {
			t.Errorf("got %v", got)
		}
	})
}

// An opening that hangs lets its caller go; what it would have opened is let go of.
func TestHungOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSickVolume(t)
		s := newSession(t, v.Volume)
		release := v.hang(t, func(o faultfs.Op) bool { return strings.HasPrefix(o.Path, "topics/") })
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if _, err := Open(ctx, s, testID, testTopic, 0, 1, testConfig()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := Open(t.Context(), s, testID, testTopic, 0, 2, testConfig()); !errors.Is(err, substrate.ErrStillLeading) {
			t.Errorf("got %v", err)
		}
		release()
		deadline := time.Now().Add(5 * time.Second)
		for epoch := int32(3); ; epoch++ {
			q, err := Open(t.Context(), s, testID, testTopic, 0, epoch, testConfig())
			if err == nil {
				ok(t, q.Relinquish(context.Background()))
				break
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		ok(t, s.Close(context.Background()))
		nothingOpen(t, v.dir)
	})
}

// Append is refused while Room says so.
func TestNoRoom(t *testing.T) {
	v := newSickVolume(t)
	full := true
	cfg := testConfig()
	cfg.Room = func(int) error {
		if full {
			return fmt.Errorf("%w: no room", kerr.KafkaStorageError)
		}
		return nil
	}
	p := open(t, newSession(t, v.Volume), 1, cfg)
	abandon(t, p)
	_, err := p.Append(context.Background(), rec(0, "x"))
	wantCode(t, err, kerr.KafkaStorageError)
	full = false
	if off := appendOne(t, p, rec(0, "y")); off != 0 {
		t.Errorf("offset %d", off)
	}
}

// Only the leader has files open, whatever ends its leadership.
func TestOnlyTheLeaderHasFilesOpen(t *testing.T) {
	for name, end := range map[string]func(*Partition, *sickVolume) error{
		"relinquished": func(p *Partition, _ *sickVolume) error { return p.Relinquish(context.Background()) },
		"abandoned":    func(p *Partition, _ *sickVolume) error { return p.Abandon(context.Background()) },
		"fenced": func(p *Partition, v *sickVolume) error {
			ok(t, v.Seal(context.Background(), p.s.ID()))
			_, err := p.Append(context.Background(), rec(0, "x"))
			ok(t, err)
			<-p.Done()
			return p.Abandon(context.Background())
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newSickVolume(t)
			cfg := testConfig()
			cfg.SegmentBytes = 200
			p := open(t, newSession(t, v.Volume), 1, cfg)
			appendN(t, p, 30)
			values(t, p)
			logs := slices.DeleteFunc(openFiles(t, v.dir), func(name string) bool { return filepath.Ext(name) != ".log" })
			if n := len(logs); n == 0 || n > cachedSegments+1 {
				t.Errorf("the leader has %d files open", n)
			}
			ok(t, end(p, v))
			nothingOpen(t, v.dir)
			if logs, _ := filepath.Glob(filepath.Join(v.dir, Dir(testID, 0), "*.log")); len(logs) < 10 {
				t.Errorf("only %d segments", len(logs))
			}
		})
	}
}
