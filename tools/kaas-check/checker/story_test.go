package checker

import (
	"strings"
	"testing"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// handmade is a history of one partition in which the first of two acknowledged records is lost.
func handmade() *history.History {
	const s = 1_000_000_000
	h := &history.History{
		Procs: []history.Proc{{Name: "nemesis"}, {Name: "producer", Role: history.Plain}, {Name: "tail", Role: history.Tail}, {Name: "the final reading", Role: history.Final}},
		Parts: []history.Part{{Topic: "t"}}, Logs: make([][]history.Record, 1),
	}
	a, b := history.Value(1, 1), history.Value(1, 2)
	h.Ops = []history.Op{
		{Kind: history.Fault, Outcome: history.OK, Part: -1, Text: "long before", Invoke: 0, Complete: s / 2},
		{Kind: history.Produce, Outcome: history.OK, Proc: 1, Value: a, Offset: 0, Invoke: s, Complete: 2 * s},
		{Kind: history.Read, Outcome: history.OK, Proc: 2, Offset: 0, Count: 1, Invoke: 2 * s, Complete: 3 * s, Records: []history.Record{{Offset: 0, Value: a, Epoch: 1}}},
		{Kind: history.Fault, Outcome: history.OK, Part: -1, Text: "kill of broker 1", Invoke: 3 * s, Complete: 4 * s},
		{Kind: history.Produce, Outcome: history.OK, Proc: 1, Value: b, Offset: 0, Invoke: 5 * s, Complete: 6 * s},
		{Kind: history.Observe, Outcome: history.OK, Proc: 3, Field: history.End, Offset: 1, Count: 1, Invoke: 7 * s, Complete: 8 * s, Last: [2]int64{7 * s, 8 * s}},
		{Kind: history.Read, Outcome: history.OK, Proc: 3, Offset: 0, Count: 1, Invoke: 8 * s, Complete: 9 * s, Records: []history.Record{{Offset: 0, Value: b, Epoch: 2}}},
	}
	return h
}

func TestStoryHasWhatMatters(t *testing.T) {
	h := handmade()
	rep := Check(h)
	if rep.Count["lost"] != 1 || rep.Count["two-values"] == 0 {
		t.Fatal(rep.Count)
	}
	var out strings.Builder
	rep.Print(&out, h)
	for _, want := range []string{"LOST: t/0: 1:1 was acknowledged at offset 0", "1.000000 s to 2.000000 s", "kill of broker 1", "the final reading read t/0 from offset 0 to 0, 1:2 at 0 (leader epoch 2)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the story lacks %q:\n%s", want, out.String())
		}
	}
	for _, surplus := range []string{"long before", "tail read"} {
		if strings.Contains(out.String(), surplus) {
			t.Errorf("the story has %q:\n%s", surplus, out.String())
		}
	}
}

// A final reading that was never begun, or that stands still, proves no loss.
func TestWithoutAFinalReadingNothingIsLost(t *testing.T) {
	h := handmade()
	h.Ops = h.Ops[:4]
	if rep := Check(h); rep.Total() != 0 || len(rep.NotFinal) != 1 {
		t.Errorf("%v, no final reading of %v", rep.Count, rep.NotFinal)
	}
	h = handmade()
	h.Ops = append(h.Ops[:4], h.Ops[5]) // told that the end is 1, and reads nothing
	if rep := Check(h); rep.Count["lost"]+rep.Count["vanished"] != 0 || rep.Count["stuck"] != 1 {
		t.Error(rep.Count)
	}
}

// What must hurt most is told, not the first thing that was said.
func TestStoriesOfRecordsComeFirst(t *testing.T) {
	h := handmade()
	h.Ops = append(h.Ops, history.Op{Kind: history.Note, Outcome: history.Failed, Part: -1, Text: "broker 1 ended by itself"})
	rep := Check(h)
	if rep.Count["told"] != 1 || rep.Violations[0].Rule != "lost" || rep.OfRecords() != rep.Total()-1 {
		t.Errorf("%v first, %d of %d of records", rep.Violations[0].Rule, rep.OfRecords(), rep.Total())
	}
}

// TestLateRecordsOfATopicBefore: what was sent to a topic may come to the next of its name, unless it
// was acknowledged.
func TestLateRecordsOfATopicBefore(t *testing.T) {
	const s = int64(1e9)
	for outcome, want := range map[history.Outcome]int{history.Unknown: 0, history.OK: 1} {
		late := history.Value(1, 1)
		rep := Check(&history.History{
			Procs: []history.Proc{{Name: "nemesis"}, {Name: "writer", Role: history.Plain}, {Name: "reader", Role: history.Final}},
			Parts: []history.Part{{Topic: "t"}, {Topic: "t", Made: 2}}, Logs: make([][]history.Record, 2),
			Ops: []history.Op{
				{Kind: history.Produce, Outcome: outcome, Proc: 1, Value: late, Offset: 0, Invoke: s, Complete: 2 * s},
				{Kind: history.Observe, Outcome: history.OK, Proc: 2, Part: 1, Field: history.End, Offset: 1, Count: 1, Invoke: 7 * s, Complete: 8 * s, Last: [2]int64{7 * s, 8 * s}},
				{Kind: history.Read, Outcome: history.OK, Proc: 2, Part: 1, Count: 1, Invoke: 8 * s, Complete: 9 * s, Records: []history.Record{{Value: late, Epoch: 2}}},
			},
		})
		if rep.Count["unsent"] != want {
			t.Errorf("%v: %v", outcome, rep.Count)
		}
	}
}
