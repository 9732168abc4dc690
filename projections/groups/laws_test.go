package groups

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

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

func equal(a, b *Shard) bool {
	return a.Len() == b.Len() && reflect.DeepEqual(slices.Collect(a.Groups()), slices.Collect(b.Groups()))
}

func id(n int) projections.TopicID { return projections.TopicID{0: 1, 15: byte(n)} }

func ptr[T any](v T) *T { return &v }

// anyFact draws a fact that may be about nothing, absurd, or a repetition.
func anyFact(t *rapid.T) Fact {
	if rapid.IntRange(0, 15).Draw(t, "restored") == 0 {
		return &Restored{From: substrate.Position{Epoch: 1, Seq: 2}, State: mustEncode(t, fold(t, NewShard(), someEvents(t, 8)))}
	}
	group := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group")
	at := rapid.Int64Range(-1, 1000).Draw(t, "time")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1:
		return &OffsetsCommitted{Group: group, Time: at, Topics: topicOffsets(t)}
	case 2:
		return &OffsetsRemoved{Group: group, Topics: topicPartitions(t)}
	case 3:
		if rapid.IntRange(0, 2).Draw(t, "really") > 0 {
			return &OffsetsRemoved{Group: group, Topics: topicPartitions(t)}
		}
		return &GroupDeleted{Group: group}
	case 4:
		return &TxnOffsetsStaged{Group: group, Producer: rapid.Int64Range(1, 2).Draw(t, "producer"), Epoch: 3,
			First: rapid.Bool().Draw(t, "first"), Time: at, Topics: topicOffsets(t)}
	case 5:
		return &TxnOffsetsEnded{Group: group, Producer: rapid.Int64Range(1, 2).Draw(t, "producer"), Committed: rapid.Bool().Draw(t, "committed"), Time: at}
	default:
		return memberFact(t, group, at)
	}
}

func memberFact(t *rapid.T, group string, at int64) Fact {
	member := rapid.SampledFrom([]string{"m", "n", "o"})
	epoch := rapid.Int32Range(-1, 9).Draw(t, "epoch")
	switch rapid.IntRange(0, 6).Draw(t, "kind of membership") {
	case 0, 1:
		c := Classic{ProtocolType: "consumer", Generation: epoch}
		for range rapid.IntRange(0, 2).Draw(t, "members") {
			c.Members = append(c.Members, ClassicMember{ID: member.Draw(t, "member"), SessionTimeout: time.Second,
				Protocols: []Protocol{{Name: "range", Metadata: []byte{}}}, Assignment: rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "assignment")})
		}
		return &ClassicGroupChanged{Group: group, Time: at, State: c}
	case 2:
		return &ConsumerGroupChanged{Group: group, Time: at, Epoch: epoch, TopicsHash: rapid.Uint64().Draw(t, "hash")}
	case 3:
		m := ConsumerMember{ID: member.Draw(t, "member"), Epoch: epoch, PreviousEpoch: epoch - 1, Assigned: assignment(t), Revoking: assignment(t),
			Topics: rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 3).Draw(t, "topics"), State: MemberState(rapid.IntRange(0, 2).Draw(t, "state"))}
		if rapid.Bool().Draw(t, "static") {
			m.InstanceID, m.Classic = ptr(""), &ClassicSession{SessionTimeout: time.Minute}
		}
		return &ConsumerMemberChanged{Group: group, Member: m}
	case 4, 5:
		return &ConsumerMemberLeft{Group: group, Time: at, Member: member.Draw(t, "member")}
	default:
		changed := Targets{}
		for range rapid.IntRange(0, 3).Draw(t, "changed") {
			changed[member.Draw(t, "member")] = assignment(t)
		}
		return &ConsumerTargetChanged{Group: group, Epoch: epoch, Assignor: "uniform", Changed: changed}
	}
}

func topicOffsets(t *rapid.T) (out []TopicOffsets) {
	for range rapid.IntRange(0, 2).Draw(t, "topics") {
		o := TopicOffsets{Topic: anyTopic(t)}
		for range rapid.IntRange(0, 3).Draw(t, "partitions") {
			o.Partitions = append(o.Partitions, PartitionOffset{Partition: rapid.Int32Range(-1, 3).Draw(t, "partition"),
				Offset: rapid.Int64().Draw(t, "offset"), LeaderEpoch: rapid.Int32().Draw(t, "leader epoch"),
				Metadata: rapid.SampledFrom([]string{"", "", "meta"}).Draw(t, "metadata"), Expires: rapid.SampledFrom([]int64{-1, -1, 5}).Draw(t, "expires")})
		}
		out = append(out, o)
	}
	return out
}

func topicPartitions(t *rapid.T) (out []TopicPartitions) {
	for range rapid.IntRange(0, 3).Draw(t, "topics") {
		out = append(out, TopicPartitions{anyTopic(t), rapid.SliceOfN(rapid.Int32Range(-1, 3), 0, 5).Draw(t, "partitions")})
	}
	return out
}

func anyTopic(t *rapid.T) projections.TopicID {
	if n := rapid.IntRange(0, 6).Draw(t, "topic"); n > 0 {
		return id(n % 3)
	}
	return projections.TopicID{}
}

func assignment(t *rapid.T) Assignment {
	a := Assignment{}
	for range rapid.IntRange(0, 2).Draw(t, "topics") {
		a[anyTopic(t)] = rapid.SliceOfN(rapid.Int32Range(0, 5), 0, 4).Draw(t, "partitions")
	}
	return a
}

func anyEvents(t *rapid.T) []metalog.Event { return someEvents(t, 40) }

func someEvents(t *rapid.T, most int) (evs []metalog.Event) {
	for range rapid.IntRange(0, most).Draw(t, "length") {
		evs = append(evs, mustEvent(t, anyFact(t)))
	}
	return evs
}

// history draws what an owner could have published: each fact is new to the view it is
// published on, and staging is said as Stage says it.
func history(t *rapid.T) (evs []metalog.Event) {
	s := NewShard()
	for range rapid.IntRange(0, 40).Draw(t, "length") {
		f := anyFact(t)
		if st, ok := f.(*TxnOffsetsStaged); ok {
			f = Stage(s.Group(st.Group), st.Group, st.Producer, st.Epoch, st.Time, st.Topics)
		}
		ev := mustEvent(t, f)
		next := fold(t, s, []metalog.Event{ev})
		if equal(next, s) {
			continue
		}
		evs, s = append(evs, ev), next
	}
	return evs
}

func TestReplayingAPrefixChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := history(t)
		n := rapid.IntRange(0, len(evs)).Draw(t, "prefix")
		once := fold(t, NewShard(), evs[:n])
		if twice := fold(t, once, evs[:n]); !equal(twice, once) {
			t.Fatalf("prefix of %d events folded twice gives another view", n)
		}
		whole := fold(t, NewShard(), evs)
		if again := fold(t, once, evs); !equal(again, whole) {
			t.Fatalf("history over its own prefix of %d gives another view", n)
		}
	})
}

// A view that is ahead holds what a later transaction has staged: the end of an earlier
// one is not to commit it.
func TestReplayKeepsTransactionsApart(t *testing.T) {
	s := newStory(t)
	evs := []metalog.Event{
		mustEvent(t, &TxnOffsetsStaged{"g", 1, 3, true, 10, topics(0, 5)}),
		mustEvent(t, &TxnOffsetsEnded{"g", 1, true, 20}),
		mustEvent(t, &TxnOffsetsStaged{"g", 1, 3, true, 30, topics(1, 6)}),
		mustEvent(t, &TxnOffsetsEnded{"g", 1, false, 40}),
	}
	s.s = fold(t, fold(t, s.s, evs[:3]), evs)
	s.offset(0, 5)
	s.offset(1, -1)
}

func TestSnapshotPlusSuffixIsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := anyEvents(t)
		whole := fold(t, NewShard(), evs)
		n := rapid.IntRange(0, len(evs)).Draw(t, "cut")
		snap, err := Decode(mustEncode(t, fold(t, NewShard(), evs[:n])))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if got := fold(t, snap, evs[n:]); !equal(got, whole) {
			t.Fatalf("cut at %d gives another view", n)
		}
		// One by one is the same as in one batch.
		one := NewShard()
		for _, ev := range evs {
			one = fold(t, one, []metalog.Event{ev})
		}
		if !equal(one, whole) {
			t.Fatal("event by event gives another view than one batch")
		}
	})
}

func TestEqualViewsHaveEqualBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := anyEvents(t)
		s := fold(t, NewShard(), evs)
		b := mustEncode(t, s)
		back, err := Decode(b)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if !equal(back, s) {
			t.Fatal("the view came back as another")
		}
		if !bytes.Equal(mustEncode(t, back), b) || !bytes.Equal(mustEncode(t, fold(t, NewShard(), evs)), b) {
			t.Fatal("encoding is not a function of the view")
		}
	})
}

func TestApplyLeavesTheOldViewAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fold(t, NewShard(), anyEvents(t))
		before := mustEncode(t, s)
		fold(t, s, anyEvents(t))
		if !bytes.Equal(mustEncode(t, s), before) {
			t.Fatal("the old view changed")
		}
	})
}

func TestViewsHoldTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := fold(t, NewShard(), anyEvents(t))
		last, n := "", 0
		for g := range s.Groups() {
			if n++; n > 1 && g.ID <= last {
				t.Fatalf("%q comes behind %q", g.ID, last)
			}
			last = g.ID
			if s.Group(g.ID) != g || g.void() || g.Classic != nil && g.Consumer != nil {
				t.Fatalf("group %q: %+v", g.ID, g)
			}
			if g.HasMembers() != (g.EmptySince == 0) {
				t.Fatalf("group %q has members (%v) and is empty since %d", g.ID, g.HasMembers(), g.EmptySince)
			}
			for o := range offsetsOf(g) {
				for topic, ps := range o {
					if len(ps) == 0 || topic.IsZero() {
						t.Fatalf("group %q has offsets %v", g.ID, o)
					}
				}
			}
		}
		if n != s.Len() {
			t.Fatalf("%d groups, but Len is %d", n, s.Len())
		}
	})
}

func offsetsOf(g *Group) func(func(Offsets) bool) {
	return func(yield func(Offsets) bool) {
		if !yield(g.Offsets) {
			return
		}
		for p := range maps.Values(g.Pending) {
			if len(p.Offsets) == 0 {
				p.Offsets = Offsets{{}: nil} // a transaction with nothing staged is no transaction
			}
			if !yield(p.Offsets) {
				return
			}
		}
	}
}

func TestApplyOfAnyBytesNeverPanics(t *testing.T) {
	names := append([]string{"unheard-of"}, slices.Sorted(maps.Keys(registry.All()))...)
	rapid.Check(t, func(t *rapid.T) {
		s := fold(t, NewShard(), anyEvents(t))
		ev := metalog.Event{Type: rapid.SampledFrom(names).Draw(t, "type"), Data: rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "data")}
		next, err := Apply(s, []metalog.Event{mustEvent(t, &GroupDeleted{"z"}), ev})
		if (next == nil) == (err == nil) {
			t.Fatalf("view %v with error %v", next, err)
		}
		_, _ = Describe(ev)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, NewShard()))
	var evs []metalog.Event
	for _, fact := range examples() {
		if _, ok := fact.(*GroupDeleted); ok {
			continue
		}
		evs = append(evs, mustEvent(f, fact))
		f.Add(mustEncode(f, fold(f, NewShard(), evs)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(mustEncode(t, s))
		if err != nil || !equal(again, s) {
			t.Fatalf("what was decoded does not survive a round trip: %v", err)
		}
	})
}

func FuzzEvent(f *testing.F) {
	for _, fact := range examples() {
		ev := mustEvent(f, fact)
		f.Add(ev.Type, []byte(ev.Data))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		ev := metalog.Event{Type: name, Data: msgpack.RawMessage(data)}
		s, err := Apply(NewShard(), []metalog.Event{ev})
		if err != nil {
			return
		}
		if back, err := Decode(mustEncode(t, s)); err != nil || !equal(back, s) {
			t.Fatalf("the view of %s does not survive a round trip: %v", name, err)
		}
		if !Known(ev) {
			return
		}
		fact, err := DecodeEvent(ev)
		if err != nil {
			t.Fatal(err)
		}
		if again := mustEvent(t, fact); !equal(fold(t, NewShard(), []metalog.Event{again}), s) {
			t.Fatalf("%s encoded again says something else", name)
		}
	})
}
