package groups

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

// examples has one fact of each kind with every field set.
func examples() []Fact {
	offsets := []TopicOffsets{
		{id(1), []PartitionOffset{{0, 42, 3, "", -1}, {1, 1 << 40, -1, "seen", 99}}},
		{id(2), []PartitionOffset{{7, 0, 0, "", -1}}},
	}
	member := ConsumerMember{ID: "m1", InstanceID: ptr("i1"), RackID: ptr("east"), ClientID: "app", Host: "/10.0.0.1", RebalanceTimeout: time.Minute,
		ServerAssignor: ptr("range"), Topics: []string{"a", "b"}, Regex: ptr("^x"), Principal: "User:a", Epoch: 7, PreviousEpoch: 6, State: UnrevokedPartitions,
		Assigned: Assignment{id(1): {0, 1, 5}, id(2): {3}}, Revoking: Assignment{id(2): {4}},
		Classic: &ClassicSession{45 * time.Second, []Protocol{{"range", []byte{1}}}}}
	classic := Classic{"consumer", 9, "range", "m1", []ClassicMember{{"m1", ptr("i1"), "app", "/10.0.0.1", 45 * time.Second, time.Minute,
		[]Protocol{{"range", []byte{1, 2}}, {"roundrobin", []byte{3}}}, []byte{4, 5}}}}
	return []Fact{
		&OffsetsCommitted{"orders", 1000, offsets},
		&OffsetsRemoved{"orders", []TopicPartitions{{id(2), []int32{7, 8}}}},
		&TxnOffsetsStaged{"orders", 12, 3, true, 1001, offsets},
		&TxnOffsetsEnded{"orders", 12, true, 1002},
		&ClassicGroupChanged{"orders", 1003, classic},
		&ConsumerGroupChanged{"orders", 1004, 7, 1<<64 - 1},
		&ConsumerMemberChanged{"orders", member},
		&ConsumerTargetChanged{"orders", 7, "uniform", Targets{"m1": {id(1): {0, 2}}, "m2": nil}},
		&ConsumerMemberLeft{"orders", 1005, "m1"},
		&GroupDeleted{"orders"},
		&Restored{substrate.Position{Epoch: 6, Seq: 43}, 1_700_000_000_000, emptyState},
	}
}

// emptyState is a view without groups.
var emptyState, _ = Encode(NewShard())

func TestFactsSayThemselves(t *testing.T) {
	want := map[string][]string{
		"OffsetsCommitted":      {"orders", "3 partition(s)", id(1).String() + "/0=42", "/7=0"},
		"OffsetsRemoved":        {"orders", "2 partition(s)", id(2).String() + "/7"},
		"TxnOffsetsStaged":      {"producer 12", "epoch 3", "orders", "/0=42"},
		"TxnOffsetsEnded":       {"producer 12", "orders", "committed"},
		"ClassicGroupChanged":   {"orders", "generation 9", "1 member(s)", "range"},
		"ConsumerGroupChanged":  {"orders", "epoch 7"},
		"ConsumerMemberChanged": {"m1", "orders", "revoking", "epoch 7", "4 partition(s)", "1 to give up"},
		"ConsumerTargetChanged": {"orders", "epoch 7", "uniform", "2 member(s)"},
		"ConsumerMemberLeft":    {"m1", "orders", "gone"},
		"GroupDeleted":          {"orders", "deleted"},
		"Restored":              {"groups", "6-43", "2023-11-14"},
	}
	for _, fact := range examples() {
		t.Run(fact.EventName(), func(t *testing.T) {
			ev := mustEvent(t, fact)
			got, err := DecodeEvent(ev)
			if err != nil || !Known(ev) || !reflect.DeepEqual(got, fact) {
				t.Fatalf("%s came back as %+v (%v), want %+v", ev.Type, got, err, fact)
			}
			line, err := Describe(ev)
			if err != nil || strings.Contains(line, "\n") {
				t.Fatalf("Describe: %q, %v", line, err)
			}
			if len(want[ev.Type]) == 0 {
				t.Error("no line is expected of it")
			}
			for _, w := range want[ev.Type] {
				if !strings.Contains(line, w) {
					t.Errorf("%q lacks %q", line, w)
				}
			}
			if _, err := json.Marshal(got); err != nil {
				t.Errorf("JSON: %v", err)
			}
		})
	}
	if len(registry.All()) != len(examples()) {
		t.Errorf("%d kinds of events are registered: give the new one a line above", len(registry.All()))
	}
}

// What clients call themselves breaks no line.
func TestLinesStayLines(t *testing.T) {
	for _, f := range []Fact{&GroupDeleted{"a\nb"}, &OffsetsCommitted{Group: "a\nb"}, &ConsumerMemberLeft{"a\nb", 1, "c\nd"},
		&ConsumerMemberChanged{"a\nb", ConsumerMember{ID: "c\nd"}}, &ConsumerTargetChanged{Group: "a\nb", Assignor: "e\nf"},
		&ClassicGroupChanged{Group: "a\nb", State: Classic{Protocol: "e\nf"}}} {
		if s := f.String(); strings.Contains(s, "\n") {
			t.Errorf("%s: %q", f.EventName(), s)
		}
	}
}

func TestManyPartitionsAreCutShort(t *testing.T) {
	ps := make([]int32, 1000)
	f := &OffsetsRemoved{"g", []TopicPartitions{{id(1), ps}}}
	if s := f.String(); len(s) > 600 || !strings.Contains(s, "1000 partition(s)") || !strings.HasSuffix(s, "…") {
		t.Errorf("%d bytes: %s", len(s), s)
	}
}

func TestUnknownEventsAreReportedAndLeftOut(t *testing.T) {
	ev := metalog.Event{Type: "MoonLanded", Data: []byte{0xc0}}
	if Known(ev) || Schema().Known(ev) {
		t.Fatal("MoonLanded is known")
	}
	if s := fold(t, NewShard(), []metalog.Event{ev}); s.Len() != 0 {
		t.Fatal("an unknown event changed the view")
	}
	if _, err := DecodeEvent(ev); err == nil || !strings.Contains(err.Error(), "MoonLanded") {
		t.Fatalf("error %v does not name it", err)
	}
}

func TestDamagedEventAppliesNothing(t *testing.T) {
	good := mustEvent(t, examples()[0])
	flags := mustEvent(t, examples()[0])
	i := strings.Index(string(flags.Data), string(make([]byte, 13))+"\x01") + 14 // behind the topic's ID
	flags.Data[i] |= 0x80
	for _, bad := range []metalog.Event{
		{Type: "GroupDeleted", Data: []byte{0x81}},
		{Type: good.Type, Data: good.Data[:len(good.Data)-1]},
		flags,
	} {
		s, err := Apply(NewShard(), []metalog.Event{good, bad})
		if s != nil || err == nil || !strings.Contains(err.Error(), "event 2 of 2") {
			t.Fatalf("got %v, %v", s, err)
		}
	}
	if _, err := DecodeEvent(flags); !strings.Contains(err.Error(), "flags 0x8") {
		t.Errorf("%v does not say that flags are unknown", err)
	}
}

// A commit's bytes decide what a busy group costs.
func TestCommitsAreSmall(t *testing.T) {
	f := &OffsetsCommitted{Group: "group-01", Time: 1_790_000_000_000, Topics: []TopicOffsets{{Topic: id(1)}}}
	for p := range int32(10) {
		f.Topics[0].Partitions = append(f.Topics[0].Partitions, PartitionOffset{p, 1_000_000 + int64(p), 3, "", -1})
	}
	if n := len(mustEvent(t, f).Data); n > 110 {
		t.Errorf("a commit of 10 partitions has %d bytes", n)
	}
}
