package partition

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

func TestSegmentNames(t *testing.T) {
	if got, want := (SegmentID{42, 7, 0}).String(), "00000000000000000042.0000000007.0000000000.log"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		id := SegmentID{rapid.Int64Range(0, math.MaxInt64).Draw(t, "base"),
			substrate.Epoch(rapid.Int32Range(0, math.MaxInt32).Draw(t, "epoch")), rapid.Uint32().Draw(t, "gen")}
		got, err := ParseSegmentName(id.String())
		if err != nil || got != id {
			t.Fatalf("%s: %+v, %v", id, got, err)
		}
	})
	for _, bad := range []string{"", "x.log", "00000000000000000042.log", "42.7.0.log",
		"00000000000000000042.0000000007.0000000000.index", "00000000000000000042.0000000007.0000000000.log.log",
		"-0000000000000000042.0000000007.0000000000.log", "00000000000000000042.9999999999.0000000000.log",
		"+0000000000000000042.0000000007.0000000000.log"} {
		if id, err := ParseSegmentName(bad); err == nil {
			t.Errorf("%q parsed as %+v", bad, id)
		}
	}
}

// history draws events that a leader may publish.
func history(t *rapid.T) []metalog.Event {
	m := &Manifest{}
	var fs []fact
	do := func(f fact) {
		if err := f.apply(m); err != nil {
			t.Fatalf("%s: %v", f.typ(), err)
		}
		fs = append(fs, f)
	}
	do(&PartitionCreated{TopicID: testID, Topic: testTopic, Partition: 3})
	epoch, size := substrate.Epoch(0), int64(0)
	for range rapid.IntRange(0, 30).Draw(t, "events") {
		s := m.newest()
		open := s != nil && s.open()
		switch rapid.IntRange(0, 5).Draw(t, "event") {
		case 0:
			if !open {
				do(&SegmentAdded{SegmentID{m.Recovery.Offset, epoch, uint32(len(fs))}})
				size = 0
			}
		case 1:
			if open && size > 0 {
				do(&SegmentEnded{End: s.Base + size, Size: size * 70})
			} else if open {
				do(&SegmentEnded{End: s.Base})
			}
		case 2:
			if open {
				size += rapid.Int64Range(1, 9).Draw(t, "n")
				do(&RecoveryPointAdvanced{Offset: s.Base + size, Pos: size * 70})
			}
		case 3:
			epoch += substrate.Epoch(rapid.IntRange(1, 3).Draw(t, "e"))
			do(&LeaderEpochStarted{Epoch: epoch, Start: m.Recovery.Offset})
		case 4:
			do(&LogStartAdvanced{rapid.Int64Range(m.LogStart, max(m.LogStart, m.Recovery.Offset)).Draw(t, "start")})
		case 5:
			id, other := rapid.Int64Range(0, 5).Draw(t, "producer"), rapid.Int64Range(0, 5).Draw(t, "dropped")
			do(&ProducersAdvanced{Offset: m.Recovery.Offset, Dropped: []int64{other}, Changed: []ProducerState{
				{ID: id, Epoch: int16(epoch), Active: size, Batches: []ProducerBatch{{Offset: size, Sequence: 1 << 30, AppendTime: -1}}}}})
		}
	}
	evs, err := encodeFacts(fs...)
	ok(t, err)
	return evs
}

// A snapshot of any prefix and its suffix fold to the same as the whole.
func TestManifestFolds(t *testing.T) {
	sc := ManifestSchema()
	rapid.Check(t, func(t *rapid.T) {
		evs := history(t)
		whole, err := sc.Apply(sc.New(), evs)
		ok(t, err)
		cut := rapid.IntRange(0, len(evs)).Draw(t, "cut")
		part, err := sc.Apply(sc.New(), evs[:cut])
		ok(t, err)
		raw := must(sc.Encode(part))(t)
		back, err := sc.Decode(raw)
		ok(t, err)
		got, err := sc.Apply(back, evs[cut:])
		ok(t, err)
		if a, b := must(sc.Encode(got))(t), must(sc.Encode(whole))(t); !reflect.DeepEqual(a, b) {
			t.Fatalf("prefix and suffix give\n%+v\nthe whole gives\n%+v", got, whole)
		}
		for _, ev := range evs {
			if line, err := Describe(ev); err != nil || !strings.HasPrefix(line, ev.Type) {
				t.Fatalf("%s is described as %q, %v", ev.Type, line, err)
			}
		}
	})
}

// Events that contradict the state are errors, and leave it alone.
func TestManifestRefuses(t *testing.T) {
	sc := ManifestSchema()
	fold := func(fs ...fact) error {
		evs, err := encodeFacts(fs...)
		ok(t, err)
		_, err = sc.Apply(sc.New(), evs)
		return err
	}
	add := &SegmentAdded{SegmentID{0, 1, 0}}
	for name, fs := range map[string][]fact{
		"two open segments":   {add, &SegmentAdded{SegmentID{0, 1, 1}}},
		"a gap":               {&SegmentAdded{SegmentID{5, 1, 0}}},
		"end without segment": {&SegmentEnded{End: 1, Size: 70}},
		"end before recovery": {add, &RecoveryPointAdvanced{Offset: 9, Pos: 700}, &SegmentEnded{End: 8, Size: 700}},
		"recovery goes back":  {add, &RecoveryPointAdvanced{Offset: 9, Pos: 700}, &RecoveryPointAdvanced{Offset: 8, Pos: 600}},
		"epoch goes back":     {add, &LeaderEpochStarted{5, 0}, &RecoveryPointAdvanced{Offset: 9, Pos: 700}, &LeaderEpochStarted{4, 9}},
		"log start goes back": {add, &LogStartAdvanced{5}, &LogStartAdvanced{4}},
	} {
		if fold(fs...) == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for _, bad := range []*Manifest{
		{Segments: []Segment{{SegmentID: SegmentID{0, 1, 0}, End: -1, Size: -1}, {SegmentID: SegmentID{5, 1, 1}, End: -1, Size: -1}}},
		{Segments: []Segment{{SegmentID: SegmentID{0, 1, 0}, End: 9, Size: 700}, {SegmentID: SegmentID{5, 1, 1}, End: -1, Size: -1}}},
		{Segments: []Segment{{SegmentID: SegmentID{5, 1, 0}, End: 5, Size: 0}}},
	} {
		if m, err := sc.Decode(must(sc.Encode(bad))(t)); err == nil {
			t.Errorf("%+v was taken", m)
		}
	}
}

// Verify compares a base with the fold before it by their bytes.
func TestEqualManifestsEncodeAlike(t *testing.T) {
	m := &Manifest{Topic: "t", About: &About{Partitions: 1, Configs: map[string]string{}}}
	for _, k := range []string{"cleanup.policy", "retention.ms", "segment.bytes", "segment.ms", "max.message.bytes"} {
		m.About.Configs[k] = "1"
	}
	first, err := encodeManifest(m)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if b, err := encodeManifest(m); err != nil || !bytes.Equal(b, first) {
			t.Fatalf("%x, %v, want %x", b, err, first)
		}
	}
}
