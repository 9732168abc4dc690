package partition

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

// logFS notes the calls that change the volume, in the order in which they return, and
// can fail or hold them.
type logFS struct {
	substrate.FS
	before func(op string) error // may block
	mu     struct {
		sync.Mutex
		ops []string
	}
}

func (l *logFS) call(op string, f func() error) error {
	if l.before != nil {
		if err := l.before(op); err != nil {
			return err
		}
	}
	err := f()
	l.mu.Lock()
	l.mu.ops = append(l.mu.ops, op)
	l.mu.Unlock()
	return err
}

func (l *logFS) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ops := l.mu.ops
	l.mu.ops = nil
	return ops
}

func kindOf(name string) string {
	switch ext := path.Ext(name); {
	case strings.HasPrefix(name, substrate.SessionsDir):
		return "token"
	case ext != "":
		return ext[1:]
	default:
		return path.Base(name)
	}
}

func (l *logFS) CreateExclusive(name string) (f substrate.File, err error) {
	err = l.call("create "+kindOf(name), func() error { f, err = l.FS.CreateExclusive(name); return err })
	if err != nil {
		return nil, err
	}
	return &logFile{f, l, kindOf(name)}, nil
}

func (l *logFS) Rename(o, n string) error {
	return l.call("rename "+kindOf(n), func() error { return l.FS.Rename(o, n) })
}

func (l *logFS) SyncDir(name string) error {
	return l.call("syncdir", func() error { return l.FS.SyncDir(name) })
}

type logFile struct {
	substrate.File
	l    *logFS
	kind string
}

func (f *logFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.l.call("write "+f.kind, func() error { n, err = f.File.WriteAt(b, off); return err })
	return n, err
}

func (f *logFile) Datasync() error { return f.l.call("sync "+f.kind, f.File.Datasync) }

func logged(t testing.TB) (*logFS, *substrate.Volume) {
	l := &logFS{FS: must(substrate.OpenDir(t.TempDir()))(t)}
	return l, newVolume(t, l)
}

// Case P-01: the calls between a produce and its answer, in either mode.
func TestOrderOfCalls(t *testing.T) {
	for flush, want := range map[int64][]string{
		1:     {"write log", "sync log", "rename token"},
		10000: {"write log", "rename token"},
	} {
		l, v := logged(t)
		cfg := testConfig()
		cfg.FlushMessages = flush
		p := open(t, newSession(t, v), 1, cfg)
		abandon(t, p)
		appendN(t, p, 1)
		for range 10 {
			l.take()
			appendN(t, p, 1)
			if got := l.take(); !slices.Equal(got, want) {
				t.Fatalf("flush interval %d: %v, want %v", flush, got, want)
			}
		}
	}
}

// F10: the old file is durable and the new one's name too before a manifest names it,
// and nothing in the new file is acknowledged before the Check after that.
func TestOrderOfRoll(t *testing.T) {
	l, v := logged(t)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.FlushMessages = 100, 10000
	p := open(t, newSession(t, v), 1, cfg)
	abandon(t, p)
	appendN(t, p, 1)
	l.take()
	appendN(t, p, 1)
	got := strings.Join(l.take(), ", ")
	at := 0
	for _, want := range []string{"create log", "syncdir", "write log", "sync log", "rename snap", "syncdir", "rename token"} {
		i := strings.Index(got[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing in its place in: %s", want, got)
		}
		at += i + len(want)
	}
}

// Case F-01: a fetch anywhere in a batch gets the whole batch, also at the ends of
// segments.
func TestFetchWithinBatch(t *testing.T) {
	for _, segmentBytes := range []int64{1 << 20, 100} { // all in one, and a roll between any two
		v := dirVolume(t)
		cfg := testConfig()
		cfg.SegmentBytes = segmentBytes
		p := open(t, newSession(t, v), 1, cfg)
		for i := range 4 {
			appendOne(t, p, rec(int64(i), "a", "b"))
		}
		check := func(p *Partition) {
			t.Helper()
			for off := range int64(8) {
				got := read(t, p, off)
				if len(got) == 0 || got[0].base() != off/2*2 {
					t.Fatalf("segment.bytes %d: read at %d begins with %v", segmentBytes, off, got)
				}
				if want := int(4 - off/2); len(got) != want {
					t.Fatalf("segment.bytes %d: read at %d gives %d batches, want %d", segmentBytes, off, len(got), want)
				}
			}
			if f, err := p.Read(context.Background(), 8, 100, true); err != nil || len(f.Records) > 0 {
				t.Fatalf("read at the end: %v, %v", f, err)
			}
			for _, off := range []int64{-1, 9} {
				_, err := p.Read(context.Background(), off, 100, true)
				wantCode(t, err, kerr.OffsetOutOfRange)
			}
		}
		check(p)
		ok(t, p.Relinquish(context.Background()))
		p = open(t, newSession(t, v), 2, cfg)
		abandon(t, p)
		check(p)
	}
}

func TestReadBounds(t *testing.T) {
	p := open(t, newSession(t, dirVolume(t)), 1, testConfig())
	abandon(t, p)
	appendOne(t, p, rec(0, "small"))
	appendOne(t, p, rec(0, strings.Repeat("x", 10_000)))
	size := len(rec(0, "small"))
	for _, c := range []struct {
		offset   int64
		max      int
		minOne   bool
		wantSize int
	}{
		{0, size, false, size}, {0, size - 1, false, 0}, {0, 0, false, 0}, {0, 0, true, size}, {0, 1, true, size},
		{0, size + 500, true, size}, {1, 500, false, 0}, {1, 500, true, len(rec(0, strings.Repeat("x", 10_000)))},
	} {
		f, err := p.Read(context.Background(), c.offset, c.max, c.minOne)
		if err != nil || len(f.Records) != c.wantSize {
			t.Errorf("%+v: got %d bytes, %v", c, len(f.Records), err)
		}
	}
}

// Case F-06: what is acknowledged is readable at once, what is not is not shown.
func TestAckedIsReadable(t *testing.T) {
	for _, flush := range []int64{1, 1 << 40} {
		hold, held := make(chan struct{}), make(chan struct{})
		l, v := logged(t)
		s := newSession(t, v)
		cfg := testConfig()
		cfg.FlushMessages = flush
		p := open(t, s, 1, cfg)
		abandon(t, p)
		for i := range 10 {
			off := appendOne(t, p, rec(0, fmt.Sprint(i)))
			if got := read(t, p, off); batchValues(t, got[0])[0] != fmt.Sprint(i) {
				t.Fatalf("flush interval %d: offset %d holds %q", flush, off, got)
			}
		}
		once := sync.OnceFunc(func() { close(held); <-hold })
		l.before = func(op string) error {
			if op == "rename token" {
				once()
			}
			return nil
		}
		changed := p.Changed()
		a, err := p.Append(context.Background(), rec(0, "late"))
		ok(t, err)
		<-held
		if f, err := p.Read(context.Background(), 10, 100, true); err != nil || len(f.Records) > 0 || f.HighWatermark != 10 {
			t.Fatalf("before the Check: %v, %v", f, err)
		}
		close(hold)
		<-changed
		ok(t, a.Wait(context.Background()))
		read(t, p, 10)
	}
}

// Appends go on while a commit is under way, and the next commit takes them all.
func TestAppendsDuringCommit(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	l, v := logged(t)
	p := open(t, newSession(t, v), 1, testConfig())
	abandon(t, p)
	appendN(t, p, 1)
	once := sync.OnceFunc(func() { close(held); <-hold })
	l.before = func(op string) error {
		if op == "sync log" {
			once()
		}
		return nil
	}
	var as []*Appended
	for i := range 100 {
		a, err := p.Append(context.Background(), rec(0, fmt.Sprint(i)))
		ok(t, err)
		as = append(as, a)
		if i == 0 {
			<-held
			l.take()
		}
	}
	close(hold)
	for i, a := range as {
		ok(t, a.Wait(context.Background()))
		if a.BaseOffset != int64(i+1) {
			t.Fatalf("append %d got offset %d", i, a.BaseOffset)
		}
	}
	syncs := 0
	for _, op := range l.take() {
		if op == "sync log" {
			syncs++
		}
	}
	if syncs > 4 {
		t.Fatalf("%d syncs for 100 appends", syncs)
	}
	if got := values(t, p); len(got) != 101 || got[100] != "99" {
		t.Fatalf("log holds %d records", len(got))
	}
}

// A failed write or sync fails the partition for good; a new leadership goes on with
// what was acknowledged.
func TestFailedCall(t *testing.T) {
	for _, op := range []string{"write log", "sync log", "syncdir", "create log"} {
		t.Run(op, func(t *testing.T) {
			l, v := logged(t)
			s := newSession(t, v)
			cfg := testConfig()
			cfg.SegmentBytes = 300
			p := open(t, s, 1, cfg)
			appendN(t, p, 2)
			l.before = func(o string) error {
				if o == op {
					return fmt.Errorf("no luck")
				}
				return nil
			}
			var err error
			acked := 2
			for err == nil && acked < 20 {
				var a *Appended
				if a, err = p.Append(context.Background(), rec(0, "more")); err == nil {
					if err = a.Wait(context.Background()); err == nil {
						acked++
					}
				}
			}
			l.before = nil
			wantCode(t, err, kerr.KafkaStorageError)
			<-p.Done()
			wantCode(t, p.Err(), kerr.KafkaStorageError)
			_, err = p.Append(context.Background(), rec(0, "later"))
			wantCode(t, err, kerr.KafkaStorageError)
			_, err = p.Read(context.Background(), 0, 10, true)
			wantCode(t, err, kerr.KafkaStorageError)
			ok(t, p.Abandon(context.Background()))
			p = open(t, s, 2, cfg) // the same session may lead again
			defer func() { ok(t, p.Relinquish(context.Background())) }()
			if got := values(t, p); len(got) < acked || len(got) > acked+1 {
				t.Fatalf("%d records, acknowledged %d", len(got), acked)
			}
			appendN(t, p, 1)
		})
	}
}

// A manifest whose rename never has a definite answer holds the acknowledgements up; the
// leadership can be abandoned, and only another session can lead after it.
func TestManifestNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, v := logged(t)
		s := newSession(t, v)
		p := open(t, s, 1, testConfig())
		l.before = func(op string) error {
			if op == "rename snap" {
				return fmt.Errorf("no answer")
			}
			return nil
		}
		a, err := p.Append(context.Background(), rec(0, "a"))
		ok(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := a.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		ok(t, p.Abandon(context.Background()))
		wantCode(t, a.Wait(context.Background()), kerr.NotLeaderForPartition)
		l.before = nil
		if _, err := Open(context.Background(), s, testID, testTopic, 0, 2, testConfig()); !errors.Is(err, substrate.ErrStillLeading) {
			t.Fatalf("got %v", err)
		}
		p = open(t, newSession(t, v), 3, testConfig())
		abandon(t, p)
		appendN(t, p, 1)
	})
}

// An idle partition publishes a recovery point, once, so that nobody has to scan.
func TestIdleRecoveryPoint(t *testing.T) {
	v := dirVolume(t)
	synctest.Test(t, func(t *testing.T) {
		s := newSession(t, v)
		cfg := testConfig()
		cfg.RecoveryPointIdle = 5 * time.Second
		p := open(t, s, 1, cfg)
		appendN(t, p, 3)
		time.Sleep(4 * time.Second)
		appendN(t, p, 1)
		time.Sleep(4 * time.Second)
		if got := committed(t, p).Recovery.Offset; got != 1 { // published with the segment
			t.Fatalf("recovery point %d while not idle", got)
		}
		time.Sleep(7 * time.Second)
		m, pos := committed(t, p), p.w.Committed().Pos
		if m.Recovery.Offset != 4 || m.Recovery.Pos != m.newest().Size && m.Recovery.Pos != p.active.size {
			t.Fatalf("recovery point %+v after the idle time", m.Recovery)
		}
		time.Sleep(time.Minute)
		if now := p.w.Committed().Pos; now != pos {
			t.Fatalf("published %s while nothing changed since %s", now, pos)
		}
		ok(t, p.Relinquish(t.Context()))
	})
}

func TestRecoveryPointByBytes(t *testing.T) {
	cfg := testConfig()
	cfg.RecoveryPointBytes = 1000
	p := open(t, newSession(t, dirVolume(t)), 1, cfg)
	abandon(t, p)
	for i := range 100 {
		appendOne(t, p, rec(0, fmt.Sprint(i)))
		if lag := p.active.size - committed(t, p).Recovery.Pos; lag > 1100 {
			t.Fatalf("recovery point lags by %d bytes", lag)
		}
	}
	if seq := p.w.Committed().Pos.Seq; seq > 15 {
		t.Fatalf("%d manifests for 100 small appends", seq)
	}
}

func TestTimestamps(t *testing.T) {
	v := dirVolume(t)
	cfg := testConfig()
	cfg.SegmentBytes, cfg.IndexIntervalBytes = 600, 100
	p := open(t, newSession(t, v), 3, cfg)
	if off, ts, epoch, err := p.OffsetForTimestamp(t.Context(), 0); off != -1 || ts != -1 || epoch != -1 || err != nil {
		t.Fatalf("empty log: %d, %d, %d, %v", off, ts, epoch, err)
	}
	times := []int64{}
	for i := range 40 {
		base := int64(i*10 - i%3*25)
		appendOne(t, p, rec(base, "a", "b", "c"))
		times = append(times, base, base+1, base+2)
	}
	check := func(p *Partition) {
		t.Helper()
		for ts := int64(-60); ts < 420; ts++ {
			want := int64(slices.IndexFunc(times, func(x int64) bool { return x >= ts }))
			off, got, _, err := p.OffsetForTimestamp(t.Context(), ts)
			if err != nil || off != want || off >= 0 && got != times[off] {
				t.Fatalf("timestamp %d: offset %d (%d), want %d: %v", ts, off, got, want, err)
			}
		}
		off, ts, epoch, err := p.MaxTimestamp(t.Context())
		if want := slices.Max(times); err != nil || ts != want || times[off] != want || epoch != 3 {
			t.Fatalf("largest: offset %d, %d, want %d: %v", off, ts, want, err)
		}
	}
	check(p)
	ok(t, p.Relinquish(t.Context()))
	p = open(t, newSession(t, v), 4, cfg)
	abandon(t, p)
	check(p)
}

func TestEpochEnd(t *testing.T) {
	v := dirVolume(t)
	s := newSession(t, v)
	for _, e := range []int32{2, 5, 6, 9} {
		p := open(t, s, e, testConfig())
		if e != 6 { // nothing is appended in 6
			appendN(t, p, int(e))
		}
		ok(t, p.Relinquish(t.Context()))
	}
	p := open(t, s, 12, testConfig())
	abandon(t, p)
	for asked, want := range map[int32][2]int64{-1: {-1, -1}, 1: {1, 0}, 2: {2, 2}, 4: {2, 2}, 5: {5, 7}, 6: {5, 7}, 9: {9, 16}, 11: {9, 16}, 12: {12, 16}, 13: {-1, -1}} {
		if e, end := p.EpochEnd(asked); [2]int64{int64(e), end} != want {
			t.Errorf("epoch %d: %d, %d, want %v", asked, e, end, want)
		}
	}
}

// More segments than files may stay open.
func TestManySegments(t *testing.T) {
	v := dirVolume(t)
	cfg := testConfig()
	cfg.SegmentBytes = 80
	p := open(t, newSession(t, v), 1, cfg)
	appendN(t, p, 50)
	if got := values(t, p); len(got) != 50 {
		t.Fatalf("%d records", len(got))
	}
	opens := func() (n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, s := range p.mu.segs {
			if s.file != nil {
				n++
			}
		}
		return n
	}
	if n := opens(); n > cachedSegments+1 {
		t.Fatalf("%d files are open", n)
	}
	ok(t, p.Relinquish(t.Context()))
	if n := opens(); n != 0 {
		t.Fatalf("%d files are open after the end", n)
	}
	p = open(t, newSession(t, v), 2, cfg)
	abandon(t, p)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := values(t, p); len(got) != 50 {
				t.Errorf("%d records after opening again", len(got))
			}
		})
	}
	wg.Wait()
	if n := opens(); n > cachedSegments+1 {
		t.Fatalf("%d files are open", n)
	}
	if off, _, _, err := p.OffsetForTimestamp(t.Context(), 49); off != 49 || err != nil {
		t.Fatalf("offset for the last timestamp is %d, %v", off, err)
	}
	indexes := 0
	for _, s := range p.mu.segs {
		if s.index != nil {
			indexes++
		}
	}
	if indexes > cachedSegments+1 {
		t.Fatalf("%d indexes are in memory", indexes)
	}
}

// A hung sync holds nobody up longer than they want to wait, and when it comes back
// after a takeover it acknowledges nothing.
func TestHungSync(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	l, v := logged(t)
	p := open(t, newSession(t, v), 1, testConfig())
	appendN(t, p, 2)
	once := sync.OnceFunc(func() { close(held); <-hold })
	l.before = func(op string) error {
		if op == "sync log" {
			once()
		}
		return nil
	}
	a, err := p.Append(context.Background(), rec(0, "hung"))
	ok(t, err)
	<-held
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for name, wait := range map[string]func(context.Context) error{"append": a.Wait, "relinquish": p.Relinquish, "abandon": p.Abandon} {
		if err := wait(short()); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	wantCode(t, a.Wait(context.Background()), kerr.NotLeaderForPartition)
	q := open(t, newSession(t, must(substrate.OpenVolume(l.FS, ""))(t)), 2, testConfig())
	abandon(t, q)
	close(hold)
	ok(t, p.Abandon(context.Background()))
	wantCode(t, a.Wait(context.Background()), kerr.NotLeaderForPartition)
	if got := values(t, q); len(got) != 3 || got[2] != "hung" {
		t.Fatalf("log holds %q", got)
	}
}
