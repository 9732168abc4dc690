package metalog_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/faultfs"
	"kaas.dev/kaas/metalog"
)

// TestPlugInPrunedHistory: a claimant that goes by an old listing plugs the place of an entry
// that is pruned, while the next one is not yet. Nothing is wrong with such a stream; with
// one that has lost the bytes of an entry in between there is.
func TestPlugInPrunedHistory(t *testing.T) {
	for seq, faults := range map[uint64]int{1: 0, 2: 1} {
		v := newVolume(t, nil)
		w := claim(t, session(t, v), 1, metalog.Options{BaseFiles: 4})
		for range 10 {
			publish(t, w, "a")
		}
		w.Abandon(t.Context())
		if err := v.Remove(substrate.EntryPath(stream, substrate.Position{Epoch: 0, Seq: 1})); err != nil {
			t.Fatal(err)
		}
		name := substrate.EntryPath(stream, substrate.Position{Epoch: 1, Seq: seq})
		if err := v.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := v.WriteFile(name, nil); err != nil {
			t.Fatal(err)
		}
		publish(t, claim(t, session(t, v), 2, metalog.Options{}), "b")
		res, err := metalog.Verify(v, stream, &journalSchema)
		if err != nil || res.Faults() != faults {
			t.Errorf("entry %d is empty: %v, %+v", seq, err, res)
		}
	}
}

// forge rewrites an entry's body, checksums and all, and adds flags.
func forge(t *testing.T, v *substrate.Volume, name string, flags uint16, change func(map[string]any)) {
	t.Helper()
	spoil(t, v, name, func(b []byte) []byte {
		f, err := substrate.DecodeFrame(name, substrate.KindEntry, b)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := msgpack.Unmarshal(f.Body, &body); err != nil {
			t.Fatal(err)
		}
		change(body)
		out, err := substrate.EncodeFile(substrate.KindEntry, f.Flags|flags, body)
		if err != nil {
			t.Fatal(err)
		}
		return out
	})
}

// A stream that goes on from another one has no epochs below its birth, and all above it.
func TestVerifyBornAboveZero(t *testing.T) {
	v := newVolume(t, nil)
	const dir = "born"
	if err := metalog.BuildFrom(v, dir, dir, &journalSchema, "it goes on", time.Now(), 7, journal{}); err != nil {
		t.Fatal(err)
	}
	if owner, _, err := metalog.NeedsSeal(v, dir, 8, ""); err != nil || owner != "" {
		t.Errorf("a claim of it has to seal %q, %v", owner, err)
	}
	for _, e := range []substrate.Epoch{8, 9} {
		w, err := metalog.Claim(t.Context(), session(t, v), dir, e, &journalSchema, metalog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, w, "a")
		w.Abandon(t.Context())
	}
	res, err := metalog.Verify(v, dir, &journalSchema)
	if err != nil || len(res.Findings) != 0 {
		t.Errorf("found %+v, %v", res, err)
	}
	if err := v.RemoveTree(dir + "/" + substrate.EpochName(8)); err != nil {
		t.Fatal(err)
	}
	if res, err = metalog.Verify(v, dir, &journalSchema); err != nil || res.Faults() == 0 {
		t.Errorf("without epoch 8: %+v, %v", res, err)
	}
}

// TestVerifyFindings: what only a look at several epochs, or at names, can find. What a
// row needs is done by hand to a stream of epochs 0, 1 (entries a, b, c) and 2 (d).
func TestVerifyFindings(t *testing.T) {
	at := func(e substrate.Epoch, seq uint64) string {
		return substrate.EntryPath(stream, substrate.Position{Epoch: e, Seq: seq})
	}
	for name, c := range map[string]struct {
		do               func(*testing.T, *substrate.Volume)
		kind, file, text string // nothing where kind is empty
		note             bool
	}{
		"nothing": {do: func(*testing.T, *substrate.Volume) {}},
		"an entry after a closed one": {func(t *testing.T, v *substrate.Volume) {
			forge(t, v, at(1, 2), substrate.FlagClosed, func(map[string]any) {})
		}, metalog.KindChain, at(1, 3), "closed the epoch", false},
		"a successor that left out what was acknowledged": {func(t *testing.T, v *substrate.Volume) {
			forge(t, v, at(2, 1), 0, func(b map[string]any) { b["prev"] = substrate.Position{Epoch: 1, Seq: 1} })
		}, metalog.KindChain, at(2, 1), "1-3 was acknowledged", false},
		"an epoch that is gone": {func(t *testing.T, v *substrate.Volume) {
			if err := v.RemoveTree(stream + "/0000000001"); err != nil {
				t.Fatal(err)
			}
		}, metalog.KindEpochMissing, stream + "/0000000001", "is missing below 2-", false},
		"an epoch's name of nine digits": {func(t *testing.T, v *substrate.Volume) {
			if err := v.Mkdir(stream + "/000000003"); err != nil {
				t.Fatal(err)
			}
		}, metalog.KindName, stream + "/000000003", "ten digits", false},
		"a file in an epoch's place": {func(t *testing.T, v *substrate.Volume) {
			if err := v.WriteFile(stream+"/0000000003", nil); err != nil {
				t.Fatal(err)
			}
		}, metalog.KindName, stream + "/0000000003", "is a file", false},
		"an epoch that was claimed, with nothing in it yet": {do: func(t *testing.T, v *substrate.Volume) {
			if err := claim(t, session(t, v), 3, metalog.Options{}).Abandon(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		"the oldest history is gone": {do: func(t *testing.T, v *substrate.Volume) {
			for _, name := range []string{at(0, 1), at(1, 1)} {
				if err := v.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}},
		"what the successor continues from is gone": {func(t *testing.T, v *substrate.Volume) {
			if err := v.Remove(at(1, 3)); err != nil {
				t.Fatal(err)
			}
		}, metalog.KindPruned, at(1, 3), "2-1 continues from it", true},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, nil)
			w := claim(t, session(t, v), 1, metalog.Options{Followed: true})
			for _, s := range []string{"a", "b", "c"} {
				p := publish(t, w, s)
				eventually(t, "HEAD is there", func() bool { h, _ := v.ReadHead(stream, 1); return h == p })
			}
			w.Abandon(t.Context())
			w = claim(t, session(t, v), 2, metalog.Options{})
			publish(t, w, "d")
			w.Abandon(t.Context())
			c.do(t, v)
			r, err := metalog.Verify(v, stream, &journalSchema)
			if err != nil {
				t.Fatal(err)
			}
			if c.kind == "" && len(r.Findings) == 0 {
				return
			}
			for _, f := range r.Findings {
				if f.Kind == c.kind && f.File == c.file && f.Fault != c.note && strings.Contains(f.Detail, c.text) {
					return
				}
			}
			t.Errorf("found %+v", r.Findings)
		})
	}
}

// Where a volume was rolled back, an owner of the history that is lost may write into an epoch
// that is burnt in this one. That counts nowhere, unless somebody continued from it.
func TestVerifyLateInABurntEpoch(t *testing.T) {
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{})
	last := publish(t, w, "a")
	w.Abandon(t.Context())
	w = claim(t, session(t, v), 4, metalog.Options{}) // 2 and 3 are burnt
	publish(t, w, "b")
	w.Abandon(t.Context())
	from, late, next := substrate.EntryPath(stream, last), substrate.EntryPath(stream, substrate.Position{Epoch: 2, Seq: 1}), substrate.EntryPath(stream, substrate.Position{Epoch: 4, Seq: 1})
	b, err := v.ReadFile(from)
	if err == nil {
		err = v.WriteFile(late, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := substrate.CRC32C(b)
	forge(t, v, late, 0, func(b map[string]any) {
		b["pos"], b["prev"], b["prev_sum"] = substrate.Position{Epoch: 2, Seq: 1}, last, sum
	})
	r, err := metalog.Verify(v, stream, &journalSchema)
	if err != nil || r.Faults() > 0 || len(r.Findings) != 1 || r.Findings[0].Kind != metalog.KindDisowned || r.Findings[0].File != late {
		t.Errorf("a late entry: %+v, %v", r, err)
	}
	if b, err = v.ReadFile(late); err != nil {
		t.Fatal(err)
	}
	forge(t, v, next, 0, func(body map[string]any) {
		body["prev"], body["prev_sum"] = substrate.Position{Epoch: 2, Seq: 1}, substrate.CRC32C(b)
	})
	r, err = metalog.Verify(v, stream, &journalSchema)
	if err != nil || !slices.ContainsFunc(r.Findings, func(f metalog.Finding) bool { return f.Kind == metalog.KindOwner && f.File == late && f.Fault }) {
		t.Errorf("somebody continues from it: %+v, %v", r, err)
	}
}

// TestVerifyLateInAPrunedBurntEpoch: what shows that a late entry was left out may be pruned
// before it is written.
func TestVerifyLateInAPrunedBurntEpoch(t *testing.T) {
	v := newVolume(t, nil)
	w := claim(t, session(t, v), 1, metalog.Options{})
	last := publish(t, w, "a")
	w.Abandon(t.Context())
	w = claim(t, session(t, v), 4, metalog.Options{BaseFiles: 2}) // 2 and 3 are burnt
	for _, s := range []string{"b", "c", "d"} {
		publish(t, w, s)
	}
	w.Abandon(t.Context())
	from, late := substrate.EntryPath(stream, last), substrate.EntryPath(stream, substrate.Position{Epoch: 2, Seq: 1})
	b, err := v.ReadFile(from)
	if err == nil {
		err = v.WriteFile(late, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	forge(t, v, late, 0, func(b map[string]any) { b["pos"] = substrate.Position{Epoch: 2, Seq: 1} })
	for _, p := range []substrate.Position{{Epoch: 0, Seq: 1}, {Epoch: 1, Seq: 1}, {Epoch: 1, Seq: 2}, {Epoch: 4, Seq: 1}, {Epoch: 4, Seq: 2}} {
		if err := v.Remove(substrate.EntryPath(stream, p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	r, err := metalog.Verify(v, stream, &journalSchema)
	if err != nil || r.Faults() > 0 || !slices.ContainsFunc(r.Findings, func(f metalog.Finding) bool { return f.Kind == metalog.KindDisowned && f.File == late }) {
		t.Errorf("a late entry below pruned history: %+v, %v", r, err)
	}
	for seq := 3; ; seq++ { // nothing that counts is left, so that the late entry is the newest
		if err := v.Remove(substrate.EntryPath(stream, substrate.Position{Epoch: 4, Seq: uint64(seq)})); err != nil {
			break
		}
	}
	r, err = metalog.Verify(v, stream, &journalSchema)
	if err != nil || !slices.ContainsFunc(r.Findings, func(f metalog.Finding) bool { return f.Kind == metalog.KindOwner && f.File == late && f.Fault }) {
		t.Errorf("the newest entry: %+v, %v", r, err)
	}
}

// TestVerifyBesidePruning: an entry that goes between the listing and the reading was pruned.
// One that is listed and cannot be found is a fault.
func TestVerifyBesidePruning(t *testing.T) {
	gone, left := substrate.EntryPath(stream, substrate.Position{Epoch: 0, Seq: 1}), substrate.EntryPath(stream, substrate.Position{Epoch: 1, Seq: 1})
	for name, faults := range map[string]int{gone: 0, left: 1} {
		var plain *substrate.Volume
		hook := func(op faultfs.Op) faultfs.Fault {
			if plain == nil || op.Name != "open" || op.Path != name {
				return faultfs.Fault{}
			}
			if name == gone {
				if err := plain.Remove(gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
			return faultfs.Fault{Err: fs.ErrNotExist}
		}
		v := newVolume(t, hook)
		w := claim(t, session(t, v), 1, metalog.Options{})
		publish(t, w, "a")
		w.Abandon(t.Context())
		plain = &substrate.Volume{FS: v.FS.(*faultfs.FS).FS}
		if r, err := metalog.Verify(v, stream, &journalSchema); err != nil || r.Faults() != faults {
			t.Errorf("%s: %v %+v", name, err, r)
		}
	}
}
