package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
)

func root(v *substrate.Volume) string { return v.FS.(*substrate.DirFS).Root() }

func logPath(t testing.TB, v *substrate.Volume, id SegmentID) string {
	t.Helper()
	return filepath.Join(root(v), Dir(testID, 0), id.String())
}

func readFile(t testing.TB, name string) []byte { t.Helper(); return must(os.ReadFile(name))(t) }

// copyVolume makes a volume with the same files.
func copyVolume(t testing.TB, v *substrate.Volume) *substrate.Volume {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.CopyFS(dir, os.DirFS(root(v))))
	return must(substrate.OpenVolume(must(substrate.OpenDir(dir))(t), v.ID))(t)
}

// crashed returns a volume whose leader died with 3 batches appended, the recovery
// point behind the first.
func crashed(t testing.TB) (*substrate.Volume, SegmentID) {
	t.Helper()
	v := dirVolume(t)
	p := open(t, newSession(t, v), 1, testConfig())
	appendOne(t, p, rec(0, "a", "b"))
	appendOne(t, p, rec(0, "c"))
	appendOne(t, p, rec(0, "d", "e", "f"))
	if r := committed(t, p).Recovery; r.Offset != 2 {
		t.Fatalf("recovery point %+v", r)
	}
	c := copyVolume(t, v)
	ok(t, p.Abandon(context.Background()))
	return c, p.active.id
}

func TestTakeoverAdoptsTail(t *testing.T) {
	v, old := crashed(t)
	p := open(t, newSession(t, v), 2, testConfig())
	want := []string{"a", "b", "c", "d", "e", "f"}
	if got := values(t, p); !slices.Equal(got, want) {
		t.Fatalf("log holds %q", got)
	}
	m := committed(t, p)
	if n := len(m.Segments); n != 2 || m.Segments[0].End != 2 || m.Segments[1].SegmentID != (SegmentID{2, 2, 0}) || m.Recovery.Offset != 6 {
		t.Fatalf("manifest %+v", m)
	}
	if got := read(t, p, 3)[0].epoch(); got != 1 {
		t.Fatalf("adopted batch has leader epoch %d", got)
	}
	appendOne(t, p, rec(0, "g"))
	if got := read(t, p, 6)[0].epoch(); got != 2 {
		t.Fatalf("new batch has leader epoch %d", got)
	}
	ok(t, p.Relinquish(t.Context()))
	if m := committed(t, p); m.newest().open() || m.newest().End != 7 {
		t.Fatalf("manifest after the end %+v", m)
	}
	// What lies behind the old segment's end does not matter any more.
	f := must(os.OpenFile(logPath(t, v, old), os.O_APPEND|os.O_WRONLY, 0))(t)
	must(f.WriteString("zombie"))(t)
	ok(t, f.Close())
	p = open(t, newSession(t, v), 3, testConfig())
	abandon(t, p)
	if got := values(t, p); !slices.Equal(got, append(want, "g")) {
		t.Fatalf("log holds %q", got)
	}
}

// The file of a leader who died while it wrote may end anywhere in its last two batches,
// in zeros, or in anything else.
func TestTornTail(t *testing.T) {
	v, id := crashed(t)
	whole := readFile(t, logPath(t, v, id))
	last := len(whole) - len(rec(0, "d", "e", "f"))
	try := func(name string, data []byte, want string) {
		t.Helper()
		v := copyVolume(t, v)
		ok(t, os.WriteFile(logPath(t, v, id), data, 0o644))
		p := open(t, newSession(t, v), 2, testConfig())
		defer func() { ok(t, p.Relinquish(context.Background())) }()
		if got := strings.Join(values(t, p), ""); got != want {
			t.Fatalf("%s: log holds %q, want %q", name, got, want)
		}
		if off := appendOne(t, p, rec(0, "x")); off != int64(len(want)) {
			t.Fatalf("%s: next offset %d", name, off)
		}
		if got := strings.Join(values(t, p), ""); got != want+"x" {
			t.Fatalf("%s: log holds %q after an append", name, got)
		}
	}
	for n := last - len(rec(0, "c")); n < len(whole); n++ {
		torn, from := "abc", last
		if n < last {
			torn, from = "ab", last-len(rec(0, "c"))
		}
		try(fmt.Sprintf("cut at %d", n), whole[:n], torn)
		if zeros := append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...); !bytes.Equal(zeros, whole) {
			want := torn
			if bytes.Equal(zeros[:last], whole[:last]) {
				want = "abc" // it ends in zeros anyway
			}
			try(fmt.Sprintf("zeros from %d", n), zeros, want)
		}
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x10
		if n-from < 12 || n-from >= 16 { // the leader epoch lies outside of the checksum
			try(fmt.Sprintf("bit flipped at %d", n), flipped, torn)
		}
	}
	try("zeros after the end", append(bytes.Clone(whole), make([]byte, 5000)...), "abcdef")
	try("garbage after the end", append(bytes.Clone(whole), bytes.Repeat([]byte{0xff}, 5000)...), "abcdef")
	try("an old batch after the end", append(bytes.Clone(whole), whole[last:]...), "abcdef")
}

// A leader that was taken over while it lived: nothing it does counts, shows, or
// changes anything.
func TestZombie(t *testing.T) {
	for _, segmentBytes := range []int64{1 << 20, 100} {
		v := dirVolume(t)
		cfg := testConfig()
		cfg.SegmentBytes = segmentBytes
		zombie := open(t, newSession(t, v), 1, cfg)
		abandon(t, zombie)
		appendN(t, zombie, 3)
		p := open(t, newSession(t, v), 2, cfg)
		abandon(t, p)
		before := values(t, p)
		var as []*Appended
		for range 5 {
			a, err := zombie.Append(context.Background(), rec(0, "zombie"))
			if err != nil {
				wantCode(t, err, kerr.NotLeaderForPartition)
				continue
			}
			as = append(as, a)
		}
		for _, a := range as {
			wantCode(t, a.Wait(context.Background()), kerr.NotLeaderForPartition)
		}
		if len(as) == 0 {
			t.Fatal("the zombie did not try")
		}
		<-zombie.Done()
		if !errors.Is(zombie.Err(), substrate.ErrFenced) {
			t.Fatalf("the zombie ended with %v", zombie.Err())
		}
		_, err := zombie.Read(context.Background(), 0, 100, true)
		wantCode(t, err, kerr.NotLeaderForPartition)
		if err := zombie.Relinquish(context.Background()); err == nil {
			t.Fatal("the zombie relinquished")
		}
		if got := values(t, p); !slices.Equal(got, before) {
			t.Fatalf("log changed from %q to %q", before, got)
		}
		if off := appendOne(t, p, rec(0, "mine")); off != 3 {
			t.Fatalf("next offset is %d", off)
		}
		ok(t, p.Abandon(context.Background()))
		p = open(t, newSession(t, v), 3, cfg)
		abandon(t, p)
		if got := values(t, p); !slices.Equal(got, append(before, "mine")) {
			t.Fatalf("log holds %q after another takeover", got)
		}
	}
}

// A clean end leaves nothing to scan or to seal.
func TestRelinquish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := dirVolume(t)
		s := newSession(t, v)
		p := open(t, s, 1, testConfig())
		var as []*Appended
		for range 50 {
			a, err := p.Append(context.Background(), rec(0, "x"))
			ok(t, err)
			as = append(as, a)
		}
		changed := p.Changed()
		began := time.Now()
		ok(t, p.Relinquish(context.Background()))
		if d := time.Since(began); d > time.Second {
			t.Errorf("took %s", d)
		}
		<-changed
		for _, a := range as {
			ok(t, a.Wait(context.Background()))
		}
		_, err := p.Append(context.Background(), rec(0, "late"))
		wantCode(t, err, kerr.NotLeaderForPartition)
		ok(t, p.Relinquish(context.Background()))
		q := open(t, newSession(t, v), 2, testConfig())
		abandon(t, q)
		ok(t, s.Check(context.Background())) // not sealed
		if got := values(t, q); len(got) != 50 {
			t.Fatalf("%d records", len(got))
		}
		if m := committed(t, q); len(m.Segments) != 1 || m.Segments[0].Epoch != 1 {
			t.Fatalf("manifest %+v", m)
		}
	})
}

// Files that the manifest does not name are left alone and not looked at.
func TestStrangeFiles(t *testing.T) {
	v, _ := crashed(t)
	dir := filepath.Join(root(v), Dir(testID, 0))
	for _, name := range []string{"notes.txt", "00000000000000000006.0000000001.0000000001.log", "00000000000000000000.0000000009.0000000000.log"} {
		ok(t, os.WriteFile(filepath.Join(dir, name), rec(0, "stray"), 0o644))
	}
	p := open(t, newSession(t, v), 9, testConfig()) // where its own first names are taken
	abandon(t, p)
	appendN(t, p, 1)
	if got := values(t, p); len(got) != 7 || slices.Contains(got, "stray") {
		t.Fatalf("log holds %q", got)
	}
	if got := readFile(t, filepath.Join(dir, "notes.txt")); !bytes.Equal(got, rec(0, "stray")) {
		t.Fatal("a strange file was changed")
	}
}

// What the manifest admits and the volume does not have is an error that names file and
// byte, at the takeover or at the read that meets it.
func TestDamage(t *testing.T) {
	wantDamage := func(t *testing.T, err error, file SegmentID, offset int64) {
		t.Helper()
		var d *substrate.DamageError
		if !errors.As(err, &d) || !strings.HasSuffix(d.File, file.String()) || d.Offset != offset {
			t.Fatalf("got %v, want damage of %s at byte %d", err, file, offset)
		}
	}
	first := int64(len(rec(0, "a", "b")))
	t.Run("newest cut before the recovery point", func(t *testing.T) {
		v, id := crashed(t)
		ok(t, os.Truncate(logPath(t, v, id), first-1))
		_, err := Open(context.Background(), newSession(t, v), testID, testTopic, 0, 2, testConfig())
		wantDamage(t, err, id, first-1)
	})
	t.Run("newest missing", func(t *testing.T) {
		v, id := crashed(t)
		ok(t, os.Remove(logPath(t, v, id)))
		if _, err := Open(context.Background(), newSession(t, v), testID, testTopic, 0, 2, testConfig()); err == nil || !strings.Contains(err.Error(), id.String()) {
			t.Fatalf("got %v", err)
		}
	})
	for name, c := range map[string]struct {
		change func([]byte) []byte
		at     int64
	}{
		"cut":          {func(b []byte) []byte { return b[:first+20] }, first + 20},
		"empty":        {func(b []byte) []byte { return nil }, 0},
		"magic":        {func(b []byte) []byte { b[first+16] = 7; return b }, first},
		"zeroed":       {func(b []byte) []byte { clear(b[first:]); return b }, first},
		"length":       {func(b []byte) []byte { b[first+8] = 0x7f; return b }, first},
		"offset":       {func(b []byte) []byte { b[first+7] = 0; return b }, first},
		"foreign file": {func(b []byte) []byte { return bytes.Repeat([]byte("log"), len(b)) }, 0},
	} {
		for _, index := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, index %v", name, index), func(t *testing.T) {
				v := dirVolume(t)
				p := open(t, newSession(t, v), 1, testConfig())
				appendOne(t, p, rec(0, "a", "b"))
				appendOne(t, p, rec(0, "c"))
				ok(t, p.Relinquish(context.Background()))
				id := p.active.id
				file := logPath(t, v, id)
				ok(t, os.WriteFile(file, c.change(readFile(t, file)), 0o644))
				if !index {
					ok(t, os.Remove(strings.TrimSuffix(file, logExt)+indexExt))
				}
				p = open(t, newSession(t, v), 2, testConfig())
				abandon(t, p)
				_, err := p.Read(context.Background(), 2, 100, true)
				wantCode(t, err, kerr.KafkaStorageError)
				wantDamage(t, err, id, c.at)
			})
		}
	}
}

// A lost, torn or foreign index costs a scan and nothing else.
func TestIndexFiles(t *testing.T) {
	v := dirVolume(t)
	cfg := testConfig()
	cfg.IndexIntervalBytes = 200
	p := open(t, newSession(t, v), 1, cfg)
	appendN(t, p, 100)
	ok(t, p.Relinquish(context.Background()))
	file := strings.TrimSuffix(logPath(t, v, p.active.id), logExt) + indexExt
	good := readFile(t, file)
	want := *p.active.index
	for name, data := range map[string][]byte{"good": good, "cut": good[:len(good)/2], "empty": {}, "foreign": []byte("hello"), "missing": nil} {
		v := copyVolume(t, v)
		file := strings.TrimSuffix(logPath(t, v, p.active.id), logExt) + indexExt
		if data == nil {
			ok(t, os.Remove(file))
		} else {
			ok(t, os.WriteFile(file, data, 0o644))
		}
		q := open(t, newSession(t, v), 2, cfg)
		if got := values(t, q); len(got) != 100 {
			t.Fatalf("%s: %d records", name, len(got))
		}
		if x := q.mu.segs[0].index; !slices.Equal(x.entries, want.entries) || x.upto != want.upto || x.maxTime != want.maxTime {
			t.Fatalf("%s: index %+v, want %+v", name, x, want)
		}
		ok(t, q.Abandon(context.Background()))
	}
}

func TestOpenRefuses(t *testing.T) {
	v := dirVolume(t)
	s := newSession(t, v)
	p := open(t, s, 3, testConfig())
	for name, f := range map[string]func() (*Partition, error){
		"taken epoch": func() (*Partition, error) {
			return Open(t.Context(), newSession(t, v), testID, testTopic, 0, 3, testConfig())
		},
		"still leading": func() (*Partition, error) { return Open(t.Context(), s, testID, testTopic, 0, 4, testConfig()) },
		"no partition": func() (*Partition, error) {
			return Open(t.Context(), newSession(t, v), testID, testTopic, 1, 4, testConfig())
		},
		"another's name": func() (*Partition, error) {
			return Open(t.Context(), newSession(t, v), testID, "other", 0, 5, testConfig())
		},
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	_ = p.Abandon(t.Context())
}

func TestTopicDirs(t *testing.T) {
	v := dirVolume(t)
	id := [16]byte{1}
	for range 2 { // idempotent
		ok(t, BuildTopic(v, "s", id, "many", 20, testTime))
		ok(t, BuildPartition(v, "s", id, "many", 20, testTime))
	}
	s := newSession(t, v)
	for i := range int32(21) {
		p, err := Open(t.Context(), s, id, "many", i, 1, testConfig())
		ok(t, err)
		appendN(t, p, 1)
		ok(t, p.Relinquish(t.Context()))
	}
	ok(t, DeleteTopicDir(t.Context(), v, id))
	ok(t, DeleteTopicDir(t.Context(), v, id))
	es := must(v.List(topicsDir))(t)
	if len(es) != 1 || es[0].Name != filepath.Base(TopicDir(testID)) {
		t.Fatalf("topics/ holds %v", es)
	}
	if _, err := Open(t.Context(), s, id, "many", 0, 2, testConfig()); err == nil {
		t.Fatal("a deleted partition was opened")
	}
}

// A manifest that has lost its newest epoch is not gone on from, however often it is tried:
// the segments which that epoch had made would count as a zombie's, and be removed.
func TestLostEpochIsNotGoneOnFrom(t *testing.T) {
	v := dirVolume(t)
	for epoch := int32(1); epoch <= 2; epoch++ {
		p := open(t, newSession(t, v), epoch, testConfig())
		appendOne(t, p, rec(0, "a"))
		ok(t, p.Relinquish(context.Background()))
	}
	lost, kept := ManifestStream(testID, 0)+"/"+substrate.EpochName(2), "kept"
	ok(t, v.Rename(lost, kept))
	before := must(v.ListFresh(Dir(testID, 0)))(t)
	for epoch := int32(3); epoch <= 4; epoch++ {
		_, err := Open(context.Background(), newSession(t, v), testID, testTopic, 0, epoch, testConfig())
		var de *substrate.DamageError
		if !errors.As(err, &de) || de.File != lost {
			t.Errorf("opened over a lost epoch: %v", err)
		}
	}
	if after := must(v.ListFresh(Dir(testID, 0)))(t); !slices.Equal(before, after) {
		t.Errorf("the files are %v, and were %v", after, before)
	}
	// It is put back, as from a copy.
	ok(t, v.RemoveTree(lost))
	ok(t, v.Rename(kept, lost))
	p := open(t, newSession(t, v), 5, testConfig())
	if got := values(t, p); !slices.Equal(got, []string{"a", "a"}) {
		t.Errorf("the log holds %q", got)
	}
	ok(t, p.Relinquish(context.Background()))
}
