package txns

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
	"kaas.dev/kaas/projections"
)

func fold(t rapid.TB, s *Shard, evs []metalog.Event) *Shard {
	t.Helper()
	next, err := Apply(s, evs)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return next
}

func mustEvent(t rapid.TB, f Fact) metalog.Event {
	t.Helper()
	ev, err := NewEvent(f)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

func mustEncode(t rapid.TB, s *Shard) []byte {
	t.Helper()
	b, err := Encode(s)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

func topic(n int) projections.TopicID { return projections.TopicID{0: 1, 15: byte(n)} }

// anyFact draws a fact about few IDs that may be absurd.
func anyFact(t *rapid.T) Fact {
	id := rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "id")
	if rapid.IntRange(0, 4).Draw(t, "removed") == 0 {
		return &TxnRemoved{ID: id}
	}
	if rapid.IntRange(0, 15).Draw(t, "restored") == 0 {
		return &Restored{From: substrate.Position{Epoch: 1, Seq: 2}, State: mustEncode(t, fold(t, NewShard(), upTo(t, 8)))}
	}
	x := Txn{ID: id, ProducerID: rapid.Int64Range(-1, 3).Draw(t, "producer"), Epoch: rapid.Int16Range(-1, 3).Draw(t, "epoch"),
		LastEpoch: rapid.Int16Range(-1, 3).Draw(t, "last"), PrevProducerID: -1, NextProducerID: rapid.Int64Range(-1, 3).Draw(t, "next"),
		State: State(rapid.Int8Range(-1, 6).Draw(t, "state")), Fencing: rapid.Bool().Draw(t, "fencing"), Timeout: rapid.Int32Range(0, 3).Draw(t, "timeout"),
		Started: rapid.Int64Range(-1, 3).Draw(t, "started"), Updated: 5}
	for i := range rapid.IntRange(0, 4).Draw(t, "partitions") {
		x.Partitions = append(x.Partitions, Partition{topic(1 + i/2), int32(i)})
	}
	if rapid.IntRange(0, 9).Draw(t, "mixed") == 0 && len(x.Partitions) > 1 {
		x.Partitions[0] = x.Partitions[1]
	}
	x.Groups = rapid.SampledFrom([][]int32{nil, {}, {1}, {1, 7}, {2, 2}, {-1}}).Draw(t, "groups")
	return &TxnChanged{x}
}

func someEvents(t *rapid.T) []metalog.Event { return upTo(t, 30) }

func upTo(t *rapid.T, most int) (evs []metalog.Event) {
	for range rapid.IntRange(0, most).Draw(t, "length") {
		evs = append(evs, mustEvent(t, anyFact(t)))
	}
	return evs
}

func TestReplayingAPrefixChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := someEvents(t)
		n := rapid.IntRange(0, len(evs)).Draw(t, "prefix")
		once := fold(t, NewShard(), evs[:n])
		if twice := fold(t, once, evs[:n]); !twice.Equal(once) {
			t.Fatalf("prefix of %d events folded twice gives another view", n)
		}
		if again := fold(t, once, evs); !again.Equal(fold(t, NewShard(), evs)) {
			t.Fatalf("history over its own prefix of %d gives another view", n)
		}
	})
}

func TestSnapshotPlusSuffixIsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := someEvents(t)
		whole := fold(t, NewShard(), evs)
		n := rapid.IntRange(0, len(evs)).Draw(t, "cut")
		snap, err := Decode(mustEncode(t, fold(t, NewShard(), evs[:n])))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		got := fold(t, snap, evs[n:])
		if !got.Equal(whole) || !bytes.Equal(mustEncode(t, got), mustEncode(t, whole)) {
			t.Fatalf("cut at %d gives another view", n)
		}
		one := NewShard()
		for _, ev := range evs {
			one = fold(t, one, []metalog.Event{ev})
		}
		if !one.Equal(whole) || !bytes.Equal(mustEncode(t, one), mustEncode(t, whole)) {
			t.Fatal("event by event gives another view than one batch")
		}
	})
}

func TestApplyLeavesTheOldViewAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fold(t, NewShard(), someEvents(t))
		before := mustEncode(t, s)
		fold(t, s, someEvents(t))
		if !bytes.Equal(mustEncode(t, s), before) {
			t.Fatal("the old view changed")
		}
	})
}

func TestViewsHoldTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fold(t, NewShard(), someEvents(t))
		n := 0
		for x := range s.Txns() {
			n++
			if !x.valid() || s.Txn(x.ID) != x {
				t.Fatalf("%+v cannot be, or is not what its ID leads to", x)
			}
			for _, p := range x.Partitions {
				if !x.Has(p) {
					t.Fatalf("%+v lacks %v", x, p)
				}
			}
		}
		if n != s.Len() {
			t.Fatalf("%d transactions, Len is %d", n, s.Len())
		}
	})
}

func TestApplyOfAnyBytesNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ev := metalog.Event{Type: rapid.SampledFrom([]string{"unheard-of", "TxnChanged", "TxnRemoved"}).Draw(t, "type"),
			Data: rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "data")}
		next, err := Apply(NewShard(), []metalog.Event{ev})
		if (next == nil) == (err == nil) {
			t.Fatalf("view %v with error %v", next, err)
		}
		_, _ = Describe(ev)
	})
}

func TestFactsSayThemselves(t *testing.T) {
	for name, tc := range map[string]struct {
		fact Fact
		want []string
	}{
		"TxnChanged": {&TxnChanged{Txn{ID: "pay", ProducerID: 4711, Epoch: 3, LastEpoch: 2, PrevProducerID: -1, NextProducerID: 4800, State: PrepareCommit,
			Timeout: 60_000, Version: 2, Partitions: Partitions{{topic(1), 0}, {topic(1), 5}, {topic(2), 1}}, Groups: []int32{3, 4}, Started: 7, Updated: 9}},
			[]string{`"pay"`, "PrepareCommit", "4711", "epoch 3", topic(1).String() + "/0,5", topic(2).String() + "/1", "[3 4]", "4800"}},
		"TxnRemoved": {&TxnRemoved{ID: "pay"}, []string{`"pay"`}},
		"Restored":   {&Restored{substrate.Position{Epoch: 6, Seq: 43}, 1_700_000_000_000, mustEncode(t, NewShard())}, []string{"transactions", "6-43", "2023-11-14"}},
	} {
		t.Run(name, func(t *testing.T) {
			ev := mustEvent(t, tc.fact)
			got, err := DecodeEvent(ev)
			if err != nil || ev.Type != name || !reflect.DeepEqual(got, tc.fact) {
				t.Fatalf("%s came back as %+v (%v), want %+v", ev.Type, got, err, tc.fact)
			}
			line, err := Describe(ev)
			if err != nil || strings.Contains(line, "\n") {
				t.Fatalf("Describe: %q, %v", line, err)
			}
			for _, w := range tc.want {
				if !strings.Contains(line, w) {
					t.Errorf("%q lacks %q", line, w)
				}
			}
			if _, err := json.Marshal(got); err != nil {
				t.Errorf("JSON: %v", err)
			}
		})
	}
	if len(registry.All()) != 3 {
		t.Errorf("%d kinds of events are registered: give the new one a line above", len(registry.All()))
	}
}

func TestViewsThatNoFoldGivesAreRefused(t *testing.T) {
	ok := Txn{ID: "b", State: Ongoing, Timeout: 1}
	twice, ofNobody, closed := ok, ok, ok
	ofNobody.ProducerID = -1
	closed.State, closed.Groups = Empty, []int32{1}
	for name, all := range map[string][]*Txn{
		"twice": {&ok, &twice}, "order": {&ok, {ID: "a", Timeout: 1}}, "nobody": {&ofNobody}, "not open": {&closed}, "nil": {nil},
	} {
		raw, err := encode(all)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(raw); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestNames(t *testing.T) {
	for s := Empty; s <= CompleteAbort; s++ {
		if got, ok := ParseState(s.String()); !ok || got != s {
			t.Errorf("%s is parsed as %v, %v", s, got, ok)
		}
	}
	if _, ok := ParseState("empty"); ok {
		t.Error("a misspelt state is parsed")
	}
	if got := Stream("m", 7); got != "m/txns/07" {
		t.Errorf("stream is %s", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, NewShard()))
	f.Add(mustEncode(f, fold(f, NewShard(), []metalog.Event{
		mustEvent(f, &TxnChanged{Txn{ID: "a", State: Ongoing, Timeout: 1, Partitions: Partitions{{topic(1), 0}, {topic(1), 1}, {topic(2), 0}}, Groups: []int32{1}}}),
		mustEvent(f, &TxnChanged{Txn{ID: "b", Timeout: 1}})})))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		if _, err := Decode(mustEncode(t, s)); err != nil {
			t.Fatalf("what was decoded does not survive a round trip: %v", err)
		}
	})
}

func FuzzEvent(f *testing.F) {
	for name, make := range registry.All() {
		f.Add(name, []byte(mustEvent(f, make()).Data))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		_, _ = Apply(NewShard(), []metalog.Event{{Type: name, Data: msgpack.RawMessage(data)}})
	})
}
