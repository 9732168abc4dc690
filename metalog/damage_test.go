package metalog_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// damages are the ways a file goes bad, each with where the error must point.
var damages = []struct {
	name   string
	damage func([]byte) []byte
	cause  string
}{
	{"truncated in the header", func(b []byte) []byte { return b[:10] }, "byte 10"},
	{"truncated in the body", func(b []byte) []byte { return b[:len(b)-7] }, "truncated"},
	{"one byte", func(b []byte) []byte { return b[:1] }, "byte 1"},
	{"zeroed tail", func(b []byte) []byte { clear(b[len(b)/2:]); return b }, "byte 24: body checksum"},
	{"all zero", func(b []byte) []byte { clear(b); return b }, "byte 0: not a kaas file"},
	{"bit flip in the header", func(b []byte) []byte { b[13] ^= 4; return b }, "byte 20: header checksum"},
	{"bit flip in the body", func(b []byte) []byte { b[40] ^= 1; return b }, "byte 24: body checksum"},
	{"foreign file", func([]byte) []byte { return []byte("#!/bin/sh\necho hello, I am somebody's script\n") }, "byte 0: not a kaas file"},
	{"unknown version", func(b []byte) []byte { return reversion(b, 2) }, "byte 8: format version 2"},
	{"bytes after the end", func(b []byte) []byte { return append(b, 0) }, "after the body"},
}

// reversion rewrites the format version and the header checksum with it.
func reversion(b []byte, v byte) []byte {
	b[9] = v
	sum := substrate.CRC32C(b[:20])
	b[20], b[21], b[22], b[23] = byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum)
	return b
}

// TestDamagedEntry: a damaged newest or inner entry is an error that names file and
// offset, for owners, readers and tools alike, and nothing of it is applied.
func TestDamagedEntry(t *testing.T) {
	ctx := context.Background()
	for _, d := range damages {
		for _, seq := range []uint64{2, 3} {
			t.Run(d.name, func(t *testing.T) {
				v := newVolume(t, nil)
				r := metalog.NewReader(v, stream, &journalSchema)
				w := claim(t, session(t, v), 1, metalog.Options{Followed: true})
				publish(t, w, "a")
				if _, err := r.Poll(ctx); err != nil {
					t.Fatal(err)
				}
				publish(t, w, "b")
				at := publish(t, w, "c")
				eventually(t, "HEAD is there", func() bool { p, _ := v.ReadHead(stream, 1); return p == at })
				w.Abandon(ctx)
				name := substrate.EntryPath(stream, substrate.Position{Epoch: 1, Seq: seq})
				spoil(t, v, name, d.damage)
				before := tree(t, v)

				check := func(who string, err error) {
					t.Helper()
					var de *substrate.DamageError
					if !errors.As(err, &de) || de.File != name || !strings.Contains(err.Error(), d.cause) {
						t.Fatalf("%s: %v; want damage of %s: %s", who, err, name, d.cause)
					}
				}
				_, err := r.Poll(ctx)
				check("reader", err)
				s, _ := r.Snapshot()
				want(t, "reader's state", s.State, "a")
				_, _, err = metalog.ReadState(ctx, v, stream, &journalSchema)
				check("state", err)
				if !bytes.Equal(before, tree(t, v)) {
					t.Fatal("a reader changed the volume")
				}
				res, err := metalog.Verify(v, stream, &journalSchema)
				if err != nil || res.Faults() == 0 || res.Findings[0].File != name {
					t.Fatalf("verify: %v %+v", err, res)
				}
				_, err = metalog.Claim(ctx, session(t, v), stream, 2, &journalSchema, metalog.Options{})
				check("claim", err)
			})
		}
	}
}

// TestBrokenChain: an entry that is whole but follows another history.
func TestBrokenChain(t *testing.T) {
	ctx := context.Background()
	v, other := newVolume(t, nil), newVolume(t, nil)
	for _, x := range []*substrate.Volume{v, other} {
		w := claim(t, session(t, x), 1, metalog.Options{})
		publish(t, w, map[bool]string{true: "a", false: "A"}[x == v])
		publish(t, w, "b")
		w.Abandon(ctx)
	}
	name := substrate.EntryPath(stream, substrate.Position{Epoch: 1, Seq: 2})
	foreign, err := other.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	spoil(t, v, name, func([]byte) []byte { return foreign })
	_, _, err = metalog.ReadState(ctx, v, stream, &journalSchema)
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "follows 1-1") {
		t.Fatalf("state of a broken chain: %v", err)
	}
}

func spoil(t *testing.T, v *substrate.Volume, name string, f func([]byte) []byte) {
	t.Helper()
	p := filepath.Join(root(v), filepath.FromSlash(name))
	b, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, f(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

func root(v *substrate.Volume) string { return v.FS.(*substrate.DirFS).Root() }

// tree is every name and byte below the volume.
func tree(t *testing.T, v *substrate.Volume) []byte {
	t.Helper()
	var out bytes.Buffer
	err := filepath.WalkDir(root(v), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			out.WriteString(p + "\n")
			return err
		}
		b, err := os.ReadFile(p)
		out.WriteString(p + "\n")
		out.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestEveryBitMatters flips every bit of an entry: each flip is noticed.
func TestEveryBitMatters(t *testing.T) {
	v := newVolume(t, nil)
	p := substrate.Position{Epoch: 0, Seq: 1}
	b, err := v.ReadFile(substrate.EntryPath(stream, p))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := metalog.DecodeEntry(stream, p, b); err != nil {
		t.Fatal(err)
	}
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, err := metalog.DecodeEntry(stream, p, b); err == nil {
			t.Fatalf("bit %d of byte %d changes nothing", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	for n := range b {
		if _, err := metalog.DecodeEntry(stream, p, b[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes pass for an entry", n, len(b))
		}
	}
}

// TestFoldLaws: whatever is published, in whatever batches, the state is the fold,
// a new owner and a new reader get it, verify agrees, and the cost stays bounded.
func TestFoldLaws(t *testing.T) {
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		v := newVolume(t, nil)
		var all []string
		var eventBytes int
		for e := substrate.Epoch(1); e <= substrate.Epoch(rapid.IntRange(1, 3).Draw(rt, "epochs")); e++ {
			w := claim(t, session(t, v), e, metalog.Options{Followed: true, BaseFiles: rapid.IntRange(2, 30).Draw(rt, "basefiles")})
			for range rapid.IntRange(1, 12).Draw(rt, "publishes") {
				s := rapid.StringN(0, 3000, 6000).Draw(rt, "value")
				all = append(all, s)
				eventBytes += len(s)
				publish(t, w, s)
			}
			want(t, "owner's state", w.Committed().State, all...)
			if rapid.Bool().Draw(rt, "close") {
				if err := w.Close(ctx); err != nil {
					rt.Fatal(err)
				}
			}
			w.Abandon(ctx)
		}
		snap, _, err := metalog.ReadState(ctx, v, stream, &journalSchema)
		if err != nil {
			rt.Fatal(err)
		}
		want(t, "state", snap.State, all...)
		r := metalog.NewReader(v, stream, &journalSchema)
		if _, err := r.Poll(ctx); err != nil {
			rt.Fatal(err)
		}
		s, _ := r.Snapshot()
		want(t, "reader's state", s.State, all...)
		if res, err := metalog.Verify(v, stream, &journalSchema); err != nil || res.Faults() != 0 {
			rt.Fatalf("verify: %v %+v", err, res)
		}
	})
}

// TestCost is the bound of the format: with states that events outgrow and states
// that they do not, total bytes stay within four times those of the events' files.
func TestCost(t *testing.T) {
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{})
	for i := range 1500 {
		publish(t, w, strings.Repeat("x", i%200))
	}
	ps, err := metalog.Positions(v, stream)
	if err != nil {
		t.Fatal(err)
	}
	var total, events, since int
	for _, p := range ps {
		e, _, err := metalog.ReadEntry(v, stream, p)
		if err != nil {
			t.Fatal(err)
		}
		total += e.Size
		events += e.Size - len(e.State)
		if since++; e.Base {
			since = 0
		}
		if since >= 1024 {
			t.Fatalf("%d entries without a base at %s", since, p)
		}
	}
	if total > 4*events {
		t.Fatalf("%d bytes written for %d bytes of events", total, events)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	d, err := substrate.OpenDir(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	v, err := substrate.OpenVolume(d, "")
	if err != nil {
		f.Fatal(err)
	}
	if err := metalog.Ensure(v, stream, &journalSchema, "birth", time.Now(), add(f, "x")); err != nil {
		f.Fatal(err)
	}
	p := substrate.Position{Epoch: 0, Seq: 1}
	b, err := v.ReadFile(substrate.EntryPath(stream, p))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, d := range damages {
		f.Add(d.damage(bytes.Clone(b)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fix := bytes.Clone(b) // let the fuzzer past the checksums
		if len(fix) >= substrate.FrameHeader {
			sum := substrate.CRC32C(fix[substrate.FrameHeader:])
			n := len(fix) - substrate.FrameHeader
			copy(fix[12:], []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n), byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
			fix = reversion(fix, fix[9])
		}
		for _, b := range [][]byte{b, fix} {
			e, err := metalog.DecodeEntry(stream, p, b)
			var de *substrate.DamageError
			if err != nil && !errors.As(err, &de) {
				t.Fatalf("%T is not damage: %v", err, err)
			}
			if (e == nil) != (err != nil) {
				t.Fatal("an entry came with an error")
			}
		}
	})
}
