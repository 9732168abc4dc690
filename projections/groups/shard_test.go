package groups

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
)

type story struct {
	t *testing.T
	s *Shard
}

func (s *story) apply(fs ...Fact) {
	s.t.Helper()
	for _, f := range fs {
		s.s = fold(s.t, s.s, []metalog.Event{mustEvent(s.t, f)})
	}
}

func newStory(t *testing.T) *story { return &story{t, NewShard()} }

func (s *story) group() *Group {
	s.t.Helper()
	g := s.s.Group("g")
	if g == nil {
		s.t.Fatal("the group is not there")
	}
	return g
}

func (s *story) gone() {
	s.t.Helper()
	if s.s.Group("g") != nil || s.s.Len() != 0 {
		s.t.Fatalf("the group is still there: %+v", s.s.Group("g"))
	}
}

// offset checks a partition of topic 1; -1 is none.
func (s *story) offset(partition int32, want int64) {
	s.t.Helper()
	if o, ok := s.group().At(id(1), partition); ok != (want >= 0) || ok && o.Offset != want {
		s.t.Fatalf("offset of partition %d is %+v (%v), want %d", partition, o, ok, want)
	}
}

func (s *story) emptySince(want int64) {
	s.t.Helper()
	if got := s.group().EmptySince; got != want {
		s.t.Fatalf("empty since %d, want %d", got, want)
	}
}

func topics(partition int32, offset int64) []TopicOffsets {
	return []TopicOffsets{{id(1), []PartitionOffset{{partition, offset, -1, "", -1}}}}
}

func commit(at int64, partition int32, offset int64) *OffsetsCommitted {
	return &OffsetsCommitted{"g", at, topics(partition, offset)}
}

func removed(partitions ...int32) *OffsetsRemoved {
	return &OffsetsRemoved{"g", []TopicPartitions{{id(1), partitions}}}
}

func classic(at int64, members ...string) *ClassicGroupChanged {
	f := &ClassicGroupChanged{Group: "g", Time: at, State: Classic{ProtocolType: "consumer"}}
	for _, m := range members {
		f.State.Members = append(f.State.Members, ClassicMember{ID: m})
	}
	return f
}

func member(id string) *ConsumerMemberChanged {
	return &ConsumerMemberChanged{"g", ConsumerMember{ID: id}}
}

func TestLifeOfOffsets(t *testing.T) {
	s := newStory(t)
	s.apply(removed(0), &TxnOffsetsEnded{"g", 1, true, 5}, &GroupDeleted{"g"}, &OffsetsCommitted{Group: "g", Time: 5})
	s.gone()
	s.apply(commit(10, 0, 5), commit(20, 1, 6), commit(30, 0, 3)) // a reset goes back
	s.offset(0, 3)
	s.offset(1, 6)
	s.emptySince(10)
	want := Offset{3, -1, "", 30, -1}
	if got, _ := s.group().At(id(1), 0); got != want {
		t.Fatalf("offset is %+v, want %+v", got, want)
	}
	s.apply(commit(40, -1, 9), &OffsetsCommitted{"g", 40, []TopicOffsets{{Partitions: []PartitionOffset{{}}}}})
	if n := len(s.group().Offsets[id(1)]); n != 2 || len(s.group().Offsets) != 1 {
		t.Fatalf("absurd partitions are kept: %v", s.group().Offsets)
	}
	s.apply(removed(0, 7))
	s.offset(0, -1)
	s.offset(1, 6)
	s.apply(removed(1))
	s.gone() // it never had members
	s.apply(commit(50, 0, 1))
	s.emptySince(50)
	s.apply(&GroupDeleted{"g"})
	s.gone()
}

func TestGroupsWithMembersStayWithoutOffsets(t *testing.T) {
	for name, join := range map[string]Fact{"classic": classic(20, "m"), "consumer": member("m")} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			s.apply(commit(10, 0, 1), join, removed(0))
			s.emptySince(0)
			if s.group().Offsets != nil {
				t.Fatalf("offsets are left: %v", s.group().Offsets)
			}
			s.apply(&GroupDeleted{"g"})
			s.gone()
		})
	}
}

func TestEmptySince(t *testing.T) {
	s := newStory(t)
	s.apply(commit(10, 0, 1), classic(20, "m"), commit(21, 0, 2))
	s.emptySince(0)
	s.apply(classic(30), commit(31, 0, 3))
	s.emptySince(30)
	s.apply(&ConsumerGroupChanged{"g", 40, 1, 0}) // nobody has joined yet
	s.emptySince(30)
	s.apply(member("a"), member("b"), &ConsumerMemberLeft{"g", 50, "a"})
	s.emptySince(0)
	s.apply(&ConsumerMemberLeft{"g", 60, "b"}, &ConsumerMemberLeft{"g", 70, "b"}, commit(80, 0, 4))
	s.emptySince(60)
	s.apply(classic(90))
	s.emptySince(90)
}

func TestOneProtocolEndsTheOther(t *testing.T) {
	s := newStory(t)
	s.apply(classic(10, "m"), &ConsumerGroupChanged{"g", 20, 5, 99})
	if g := s.group(); g.Classic != nil || g.Consumer == nil || g.Consumer.Epoch != 5 || g.Consumer.TopicsHash != 99 {
		t.Fatalf("group is %+v", g)
	}
	s.emptySince(20)
	s.apply(&ConsumerMemberChanged{"g", ConsumerMember{ID: "m", Classic: &ClassicSession{}}})
	s.apply(&ConsumerTargetChanged{"g", 5, "uniform", Targets{"m": {id(1): {0, 1}}}})
	s.apply(&ConsumerTargetChanged{"g", 6, "range", Targets{"n": {id(1): {2}}}})
	c := s.group().Consumer
	if c.Members["m"].Classic == nil || c.TargetEpoch != 6 || c.Assignor != "range" || !slices.Equal(c.Target["m"][id(1)], []int32{0, 1}) {
		t.Fatalf("membership is %+v", c)
	}
	s.apply(&ConsumerTargetChanged{"g", 7, "range", Targets{"n": {}}})
	if a, ok := s.group().Consumer.Target["n"]; !ok || a.Len() != 0 {
		t.Fatalf("an empty target is %v (%v)", a, ok)
	}
	s.apply(&ConsumerMemberLeft{"g", 30, "m"})
	if c := s.group().Consumer; len(c.Members) != 0 || c.Target["m"] != nil || c.Epoch != 5 {
		t.Fatalf("after the last left: %+v", c)
	}
	s.apply(classic(40, "x"), &ConsumerMemberLeft{"g", 50, "x"}, &ConsumerTargetChanged{"g", 9, "range", nil})
	if g := s.group(); g.Consumer != nil || len(g.Classic.Members) != 1 {
		t.Fatalf("group is %+v", g)
	}
	s.apply(&ConsumerGroupChanged{"g", 60, 1, 0})
	if c := s.group().Consumer; len(c.Target) != 0 || c.TargetEpoch != 0 {
		t.Fatalf("the membership before the other is back: %+v", c)
	}
}

func TestTransactions(t *testing.T) {
	stage := func(s *story, producer int64, partition int32, offset int64) {
		s.apply(Stage(s.s.Group("g"), "g", producer, 3, 100, topics(partition, offset)))
	}
	ended := func(producer int64, committed bool) Fact { return &TxnOffsetsEnded{"g", producer, committed, 200} }

	s := newStory(t)
	stage(s, 1, 0, 5)
	stage(s, 1, 1, 6)
	s.offset(0, -1)
	s.emptySince(100)
	g := s.group()
	if !g.Unstable(id(1), 1) || g.Unstable(id(1), 2) || g.Unstable(id(2), 1) || g.Pending[1].Epoch != 3 {
		t.Fatalf("staged is %+v", g.Pending)
	}
	s.apply(removed(0, 1)) // what is staged neither expires nor is deleted
	s.apply(ended(2, true), ended(1, true))
	s.offset(0, 5)
	s.offset(1, 6)
	if o, _ := s.group().At(id(1), 0); o.Committed != 200 || s.group().Pending != nil {
		t.Fatalf("offset is %+v, pending %v", o, s.group().Pending)
	}

	s = newStory(t)
	s.apply(commit(50, 0, 1))
	stage(s, 1, 0, 5)
	s.apply(removed(0))
	s.apply(ended(1, false))
	s.gone() // dropped, and nothing else was there

	s = newStory(t)
	stage(s, 1, 0, 5)
	stage(s, 1, 1, 5)
	stage(s, 2, 0, 8)
	s.apply(commit(150, 0, 20)) // later than what is staged for it
	if !s.group().Unstable(id(1), 0) {
		t.Fatal("a plain commit ended the transaction")
	}
	stage(s, 2, 0, 30) // and this is later still
	s.apply(ended(1, true))
	s.offset(0, 20)
	s.offset(1, 5)
	s.apply(ended(2, true))
	s.offset(0, 30)
	stage(s, 1, 0, 99)
	s.apply(&GroupDeleted{"g"}, ended(1, true))
	s.gone()
}

func TestStream(t *testing.T) {
	if got := Stream("meta/v", 3); got != "meta/v/groups/03" {
		t.Errorf("stream is %s", got)
	}
}

// The table does what a map does, at sizes where chunks part and join.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := map[string]*Group{}
		var tab table
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			first, n := rapid.IntRange(0, 2000).Draw(t, "first"), rapid.IntRange(1, 900).Draw(t, "number")
			step, remove := rapid.IntRange(1, 3).Draw(t, "step"), rapid.Bool().Draw(t, "remove")
			var cs []change
			for i := first; i < first+n*step; i += step {
				c := change{id: fmt.Sprintf("%05d", i)}
				if !remove {
					c.group = &Group{ID: c.id}
					model[c.id] = c.group
				} else {
					delete(model, c.id)
				}
				cs = append(cs, c)
			}
			before := slices.Collect(tab.all)
			next := tab.with(cs)
			if !slices.Equal(slices.Collect(tab.all), before) {
				t.Fatal("the old table changed")
			}
			tab = next
			checkTable(t, tab, model)
		}
	})
}

func checkTable(t *rapid.T, tab table, model map[string]*Group) {
	got := slices.Collect(tab.all)
	if len(got) != len(model) || tab.size != len(model) {
		t.Fatalf("%d groups, size %d, want %d", len(got), tab.size, len(model))
	}
	if !slices.IsSortedFunc(got, func(a, b *Group) int { return strings.Compare(a.ID, b.ID) }) {
		t.Fatal("not in order")
	}
	for id, g := range model {
		if tab.get(id) != g {
			t.Fatalf("group %s is not found", id)
		}
	}
	for _, c := range tab.chunks {
		if len(*c) == 0 || len(*c) > chunkMost {
			t.Fatalf("a chunk of %d groups", len(*c))
		}
	}
	if most := 1 + 6*len(model)/chunkMost + 12; len(tab.chunks) > most {
		t.Fatalf("%d chunks for %d groups", len(tab.chunks), len(model))
	}
	if tab.get("") != nil || tab.get("99999x") != nil {
		t.Fatal("a group is found that nobody put there")
	}
}

func TestDecodeRefusesWhatNoFoldGives(t *testing.T) {
	one := func(g groupBody) stateBody { return stateBody{nil, []groupBody{g}} }
	since := groupBody{ID: "g", Consumer: &consumerBody{}, EmptySince: 1}
	for name, body := range map[string]stateBody{
		"void":          one(groupBody{ID: "g", EmptySince: 1}),
		"twice":         {nil, []groupBody{since, since}},
		"both":          one(groupBody{ID: "g", Consumer: &consumerBody{}, Classic: &Classic{}, EmptySince: 1}),
		"never empty":   one(groupBody{ID: "g", Consumer: &consumerBody{}}),
		"no such topic": one(groupBody{ID: "g", Offsets: []byte{1, 0, 0, 1, 0, 0, 0}, EmptySince: 1}),
		"packed":        one(groupBody{ID: "g", Offsets: []byte{9}, EmptySince: 1}),
		"pending":       one(groupBody{ID: "g", Pending: []pendingBody{{Producer: 1}}, EmptySince: 1}),
	} {
		raw, err := encode(&body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(raw); err == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	raw, err := encode(&stateBody{nil, []groupBody{since}})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Decode(raw); err != nil || !reflect.DeepEqual(s.Group("g").Consumer, &Consumer{Members: map[string]*ConsumerMember{}, Target: Targets{}}) {
		t.Errorf("a sound one: %v", err)
	}
}
