package metalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"go.uber.org/goleak"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/metalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is the state of the tests: every value ever added, in order.
type journal []string

const added = "Added"

func add(t testing.TB, s string) metalog.Event {
	ev, err := metalog.NewEvent(added, s)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

var journalSchema = metalog.Schema[journal]{
	New: func() journal { return nil },
	Apply: func(j journal, evs []metalog.Event) (journal, error) {
		j = j[:len(j):len(j)]
		for _, ev := range evs {
			if ev.Type != added {
				continue
			}
			var s string
			if err := msgpack.Unmarshal(ev.Data, &s); err != nil {
				return nil, err
			}
			j = append(j, s)
		}
		return j, nil
	},
	Encode: func(j journal) ([]byte, error) { return msgpack.Marshal([]string(j)) },
	Decode: func(b []byte) (j journal, err error) { return j, msgpack.Unmarshal(b, (*[]string)(&j)) },
	Known:  func(ev metalog.Event) bool { return ev.Type == added },
}

const stream = "s"

func newVolume(t testing.TB, hook func(faultfs.Op) faultfs.Fault) *substrate.Volume {
	t.Helper()
	d, err := substrate.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	v, err := substrate.OpenVolume(d, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := metalog.Ensure(v, stream, &journalSchema, "birth", time.Now()); err != nil {
		t.Fatal(err)
	}
	if hook != nil {
		v.FS = &faultfs.FS{FS: d, Hook: hook}
	}
	return v
}

func session(t testing.TB, v *substrate.Volume) *substrate.Session {
	t.Helper()
	s, err := v.OpenSession(substrate.Identity{Role: substrate.RoleController})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func claim(t testing.TB, s *substrate.Session, e substrate.Epoch, opt metalog.Options) *metalog.Writer[journal] {
	t.Helper()
	w, err := metalog.Claim(context.Background(), s, stream, e, &journalSchema, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Abandon(context.Background()) })
	return w
}

func publish(t testing.TB, w *metalog.Writer[journal], s string) substrate.Position {
	t.Helper()
	p, err := w.Publish(context.Background(), "test", func(journal) ([]metalog.Event, error) { return []metalog.Event{add(t, s)}, nil })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func want(t *testing.T, what string, got journal, want ...string) {
	t.Helper()
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

func TestPublishFollowAndHandOver(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	r := metalog.NewReader(v, stream, &journalSchema)
	a := claim(t, session(t, v), 1, metalog.Options{Followed: true})
	if p := publish(t, a, "a"); p.String() != "1-1" {
		t.Fatalf("first position is %s", p)
	}
	follow := func(wantPos string, values ...string) {
		t.Helper()
		var s metalog.Snapshot[journal]
		eventually(t, "the reader is at "+wantPos, func() bool { // HEAD is written after the acknowledgement
			if _, err := r.Poll(ctx); err != nil {
				t.Fatal(err)
			}
			s, _ = r.Snapshot()
			return s.Pos.String() == wantPos
		})
		want(t, "reader's state", s.State, values...)
	}
	follow("1-1", "a")
	publish(t, a, "b")
	publish(t, a, "c")
	follow("1-3", "a", "b", "c")
	if err := a.Close(ctx); err != nil {
		t.Fatal(err)
	}
	follow("1-4", "a", "b", "c")
	if _, err := a.Publish(ctx, "late", func(journal) ([]metalog.Event, error) { return nil, nil }); !errors.Is(err, metalog.ErrClosed) {
		t.Fatalf("publish after close gave %v", err)
	}
	b := claim(t, session(t, v), 3, metalog.Options{Followed: true})
	want(t, "new owner's state", b.Committed().State, "a", "b", "c")
	publish(t, b, "d")
	follow("3-1", "a", "b", "c", "d")
}

// TestFollowerOutlivesAHead: an owner that closed its epoch and was gone before
// HEAD told so does not hold its followers back, though nobody seals its session.
func TestFollowerOutlivesAHead(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	s := session(t, v)
	a := claim(t, s, 1, metalog.Options{Followed: true})
	publish(t, a, "a")
	a.Abandon(ctx)
	r := metalog.NewReader(v, stream, &journalSchema)
	if _, err := r.Poll(ctx); err != nil {
		t.Fatal(err)
	}
	quiet := claim(t, s, 2, metalog.Options{}) // the same session, without HEAD
	publish(t, quiet, "b")
	if err := quiet.Close(ctx); err != nil {
		t.Fatal(err)
	}
	b := claim(t, session(t, v), 3, metalog.Options{Followed: true})
	publish(t, b, "c")
	for range 50 {
		if _, err := r.Poll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	snap, _ := r.Snapshot()
	want(t, "reader's state", snap.State, "a", "b", "c")
	if !s.IsFenced() && s.Check(ctx) != nil {
		t.Fatal("the first owner's session was sealed; the test shows nothing")
	}
}

func TestFencedWriterPublishesNothing(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	a := claim(t, session(t, v), 1, metalog.Options{Followed: true})
	publish(t, a, "a")
	r := metalog.NewReader(v, stream, &journalSchema)
	if _, err := r.Poll(ctx); err != nil {
		t.Fatal(err)
	}
	b := claim(t, session(t, v), 2, metalog.Options{Followed: true})
	_, err := a.Publish(ctx, "late", func(journal) ([]metalog.Event, error) { return []metalog.Event{add(t, "zombie")}, nil })
	if !errors.Is(err, substrate.ErrFenced) {
		t.Fatalf("a fenced writer's publish gave %v", err)
	}
	<-a.Done()
	if changed, err := r.Poll(ctx); changed || err != nil {
		t.Fatalf("the reader moved to the zombie's entry: %v %v", changed, err)
	}
	publish(t, b, "b")
	for range 50 {
		if _, err := r.Poll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := r.Snapshot()
	want(t, "reader's state", s.State, "a", "b")
}

func TestPublishersShareEntries(t *testing.T) {
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{})
	const n = 200
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { publish(t, w, fmt.Sprint(i)) })
	}
	wg.Wait()
	s := w.Committed()
	if len(s.State) != n || s.Pos.Seq >= n/2 {
		t.Fatalf("%d publishers left %d values in %d entries", n, len(s.State), s.Pos.Seq)
	}
}

// TestDecideSeesWhatItChanges: a refusal rests on the state at its own place in
// the order, and goes out when that state is committed.
func TestDecideSeesWhatItChanges(t *testing.T) {
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{})
	exists := errors.New("exists")
	once := func(j journal) ([]metalog.Event, error) {
		for _, s := range j {
			if s == "x" {
				return nil, exists
			}
		}
		return []metalog.Event{add(t, "x")}, nil
	}
	var made, refused int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := w.Publish(context.Background(), "make x", once)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case errors.Is(err, exists):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made != 1 || refused != 49 {
		t.Fatalf("%d made it and %d were refused", made, refused)
	}
}

// TestPruning: what is kept is a suffix that starts at or below the newest base
// and can be continued; a reader whose files are gone starts again from that base.
func TestPruning(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	opt := metalog.Options{Followed: true, RetentionEntries: 20, BaseFiles: 8}
	r := metalog.NewReader(v, stream, &journalSchema)
	var all []string
	for e := substrate.Epoch(1); e <= 3; e++ {
		w := claim(t, session(t, v), e, opt)
		for i := range 60 {
			all = append(all, fmt.Sprintf("%d/%d", e, i))
			publish(t, w, all[len(all)-1])
			if e == 1 && i == 5 {
				if _, err := r.Poll(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		want(t, "owner's state", w.Committed().State, all...)
		eventually(t, "history is pruned", func() bool {
			ps, err := metalog.Positions(v, stream)
			return err == nil && len(ps) <= 40 && ps[0].Epoch == e
		})
		w.Abandon(ctx)
	}
	ps, err := metalog.Positions(v, stream)
	if err != nil {
		t.Fatal(err)
	}
	if len(ps) < 8 || len(ps) > 40 || ps[0].Epoch != 3 {
		t.Fatalf("%d entries are left, from %s", len(ps), ps[0])
	}
	for range 2 {
		if _, err := r.Poll(ctx); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := r.Snapshot()
	want(t, "reader's state", s.State, all...)
	res, err := metalog.Verify(v, stream, &journalSchema)
	if err != nil || res.Faults() != 0 {
		t.Fatalf("verify: %v, %+v", err, res)
	}
}

// TestAgePruning removes by the wall time in the entries.
func TestAgePruning(t *testing.T) {
	v := newVolume(t, nil)
	var later atomic.Int64
	w := claim(t, session(t, v), 1, metalog.Options{RetentionAge: time.Hour, BaseFiles: 4,
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	for range 10 {
		publish(t, w, "old")
	}
	later.Store(int64(2 * time.Hour))
	for range 130 {
		publish(t, w, "new")
	}
	eventually(t, "what is old is pruned", func() bool {
		ps, err := metalog.Positions(v, stream)
		return err == nil && ps[0].Epoch == 1 && ps[0].Seq >= 9
	})
}

// eventually waits for what happens beside the publishing.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestUnknownEventsMayBeReadNotOwned guards a rolling upgrade.
func TestUnknownEventsMayBeReadNotOwned(t *testing.T) {
	ctx := context.Background()
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{})
	publish(t, w, "a")
	newer := metalog.Event{Type: "FromTheFuture", Data: []byte{0xc0}}
	if _, err := w.Publish(ctx, "newer", func(journal) ([]metalog.Event, error) { return []metalog.Event{newer}, nil }); err != nil {
		t.Fatal(err)
	}
	w.Abandon(ctx)
	r := metalog.NewReader(v, stream, &journalSchema)
	if changed, err := r.Poll(ctx); !changed || err != nil {
		t.Fatalf("reader: %v %v", changed, err)
	}
	_, err := metalog.Claim(ctx, session(t, v), stream, 2, &journalSchema, metalog.Options{})
	if err == nil || !strings.Contains(err.Error(), "FromTheFuture") {
		t.Fatalf("claim gave %v", err)
	}
}

// TestFaultsAtEveryCall fails each call of a publish once, with and without
// effect, and looks that nothing acknowledged is lost and no position has two values.
func TestFaultsAtEveryCall(t *testing.T) {
	ctx := context.Background()
	for _, f := range []faultfs.Fault{{Err: faultfs.EIO}, {Err: faultfs.EIO, Apply: true}, {Err: faultfs.ENOSPC}, {Err: faultfs.ENOSPC, Apply: true}} {
		for k := 1; ; k++ {
			var mu sync.Mutex
			armed, fired := false, ""
			var once func(faultfs.Op) faultfs.Fault
			v := newVolume(t, func(o faultfs.Op) faultfs.Fault {
				mu.Lock()
				defer mu.Unlock()
				if !armed {
					return faultfs.Fault{}
				}
				ft := once(o)
				if ft.Err != nil {
					fired = o.Name + " " + o.Path
				}
				return ft
			})
			once = faultfs.Once(k, f, func(faultfs.Op) bool { return true })
			w := claim(t, session(t, v), 1, metalog.Options{Followed: true})
			publish(t, w, "a")
			mu.Lock()
			armed = true
			mu.Unlock()
			_, err := w.Publish(ctx, "test", func(journal) ([]metalog.Event, error) { return []metalog.Event{add(t, "b")}, nil })
			acked := []string{"a"}
			if err == nil {
				acked = append(acked, "b")
			}
			if _, err2 := w.Publish(ctx, "test", func(journal) ([]metalog.Event, error) { return []metalog.Event{add(t, "c")}, nil }); err2 == nil {
				acked = append(acked, "c")
			}
			mu.Lock()
			armed = false
			mu.Unlock()
			w.Abandon(ctx)
			next := claim(t, session(t, v), 2, metalog.Options{})
			got := strings.Join(next.Committed().State, ",")
			if !subsequence(acked, next.Committed().State) {
				t.Fatalf("%v at call %d (%s): acknowledged %v, the next owner has %s", f, k, fired, acked, got)
			}
			if err != nil && !errors.Is(err, substrate.ErrUnknown) && !errors.Is(err, substrate.ErrNotDurable) && strings.Contains(got, "b") {
				t.Fatalf("%v at call %d (%s): reported as failed (%v), but it is there", f, k, fired, err)
			}
			next.Abandon(ctx)
			if res, err := metalog.Verify(v, stream, &journalSchema); err != nil || res.Faults() != 0 {
				t.Fatalf("%v at call %d (%s): verify %v %+v", f, k, fired, err, res)
			}
			if fired == "" {
				break
			}
		}
	}
}

func subsequence(sub, of []string) bool {
	for _, s := range of {
		if len(sub) > 0 && sub[0] == s {
			sub = sub[1:]
		}
	}
	return len(sub) == 0
}
