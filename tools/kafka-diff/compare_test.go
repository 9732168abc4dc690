package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func metadataOf(id byte, topics ...string) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 1, Host: "127.0.0.1", Port: 1000 + int32(id)}}
	for i, name := range topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = &name, [16]byte{id, byte(i), 1}
		t.Partitions = []kmsg.MetadataResponseTopicPartition{{Partition: 0, Leader: 1, LeaderEpoch: int32(id)}}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func differences(a, b *symbols, kafka, kaas kmsg.Response) (out []string) {
	differ("", a.tree(kafka), b.tree(kaas), func(path, x, y string) { out = append(out, fmt.Sprintf("%s %s %s", path, x, y)) })
	return out
}

func twoSymbols() (a, b *symbols) {
	now := time.UnixMilli(1_700_000_000_000)
	a, b = newSymbols("127.0.0.1:1001", "/x/a", now), newSymbols("127.0.0.1:1002", "/x/b", now)
	a.firstEpoch, b.firstEpoch, a.firstMember, b.firstMember = 1, 2, 1, 1
	return a, b
}

// What two brokers cannot have in common is no difference, and everything else is.
func TestDifferences(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(kafka, kaas *kmsg.MetadataResponse)
		want []string
	}{
		{"the same", func(_, _ *kmsg.MetadataResponse) {}, nil},
		{"a code, which is all that is told", func(_, b *kmsg.MetadataResponse) { b.Topics[0].ErrorCode, b.Topics[0].IsInternal = 3, true }, []string{`.Topics["a"].ErrorCode 0 3`}},
		{"a flag", func(_, b *kmsg.MetadataResponse) { b.Topics[1].IsInternal = true }, []string{`.Topics["b"].IsInternal false true`}},
		{"null and empty", func(a, b *kmsg.MetadataResponse) {
			a.Topics[0].Partitions, b.Topics[0].Partitions = nil, []kmsg.MetadataResponseTopicPartition{}
		}, []string{`.Topics["a"].Partitions null []`}},
		{"one less", func(_, b *kmsg.MetadataResponse) { b.Topics[0].Partitions = b.Topics[0].Partitions[:0] },
			[]string{`.Topics["a"].Partitions[0] {ErrorCode:0 Partition:0 Leader:1 LeaderEpoch:0 Replicas:null ISR:null OfflineReplicas:null} (none)`}},
		{"another order", func(_, b *kmsg.MetadataResponse) { b.Topics[0], b.Topics[1] = b.Topics[1], b.Topics[0] },
			[]string{`.Topics[order] "a", "b" "b", "a"`}},
		{"an ID that is none", func(_, b *kmsg.MetadataResponse) { b.Topics[0].TopicID = [16]byte{} }, []string{`.Topics["a"].TopicID <id of a> 0`}},
		{"a port that is another's", func(_, b *kmsg.MetadataResponse) { b.Brokers[0].Port = 7 }, []string{`.Brokers[1].Port <port> 7`}},
		{"a leader epoch", func(_, b *kmsg.MetadataResponse) { b.Topics[0].Partitions[0].LeaderEpoch = 5 }, []string{`.Topics["a"].Partitions[0].LeaderEpoch 0 3`}},
	} {
		a, b := metadataOf(1, "a", "b"), metadataOf(2, "a", "b")
		tc.edit(a, b)
		sa, sb := twoSymbols()
		if got := differences(sa, sb, a, b); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The same ID is the same symbol, and another one of the same topic is not.
func TestSymbols(t *testing.T) {
	s, _ := twoSymbols()
	first := s.tree(metadataOf(1, "a")).brief()
	again, other := s.tree(metadataOf(1, "a")).brief(), s.tree(metadataOf(3, "a")).brief()
	if first != again || first == other || !strings.Contains(other, "<id 2 of a>") {
		t.Errorf("%s\n%s\n%s", first, again, other)
	}
	for _, tc := range []struct{ name, in, want string }{
		{"MemberID", "kdiff-01234567-0123-0123-0123-0123456789ab", "kdiff-<member 1>"},
		{"LeaderID", "kdiff-01234567-0123-0123-0123-0123456789ab", "kdiff-<member 1>"},
		{"MemberID", "kdiff-11234567-0123-0123-0123-0123456789ab", "kdiff-<member 2>"},
		{"MemberID", "own-1", `"own-1"`},
		{"ErrorMessage", "it is so", "<text>"},
		{"ErrorMessage", "", `""`},
		{"Value", "PLAINTEXT://127.0.0.1:1001", `"PLAINTEXT://<address>"`},
	} {
		if got := s.text(tc.name, tc.in); got != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.name, tc.in, got, tc.want)
		}
	}
	for _, tc := range []struct {
		name string
		in   int64
		want string
	}{
		{"Timestamp", 1_700_000_001_000, "<now>"}, {"Timestamp", firstTime, "1600000000000"}, {"ProducerID", 7, "<producer 1>"}, {"ProducerID", -1, "-1"},
		{"LeaderEpoch", 1, "0"}, {"LeaderEpoch", -1, "-1"}, {"MemberEpoch", 1, "1"},
	} {
		if got := s.number(tc.name, tc.in); got != tc.want {
			t.Errorf("%s %d: %s, want %s", tc.name, tc.in, got, tc.want)
		}
	}
}

// Records are compared as they are without compression, and damage is seen.
func TestRecordsAreCompared(t *testing.T) {
	s, _ := twoSymbols()
	plain := batch(nil, values("a", "b")...)
	if got := s.batch(plain).brief(); !strings.Contains(got, "Sound:true") || !strings.Contains(got, "NumRecords:2") {
		t.Error(got)
	}
	plain[20] ^= 1
	if got := s.batch(plain).brief(); !strings.Contains(got, "Sound:false") {
		t.Error(got)
	}
	if got := s.bytes("RecordBatches", plain[:30]).brief(); got != "[a part of a batch, 30 bytes]" {
		t.Error(got)
	}
}

// A difference is intended where all of an intention's expressions fit; an intention that
// nothing meets is told.
func TestJudge(t *testing.T) {
	found := []difference{
		{"s", "one", "Fetch v4", ".A.B", "1", "2"},
		{"s", "two", "Fetch v5", ".A.B", "1", "3"},
	}
	list := []intention{{api: "Fetch.*", path: `\.A\.B`, kaas: "2"}, {script: "t.*"}, {path: `\.A`}}
	r := judge(found, list)
	if len(r.others) != 1 || r.others[0].step != "two" || fmt.Sprint(r.met) != "[1 0 0]" || len(r.stale) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestIntentionsHaveReasons(t *testing.T) {
	for i, in := range intended {
		if in.what == "" || in.why == "" {
			t.Errorf("the intention %d says nothing", i)
		}
		in.covers(&difference{}) // its expressions are such
	}
}

// Scripts that did not ask the same are not compared further.
func TestStepsThatRunApart(t *testing.T) {
	a := []step{{"s", "x", 3, 1, leaf("1")}, {"s", "y", 3, 1, leaf("1")}}
	b := []step{{"s", "x", 3, 1, leaf("2")}, {"s", "z", 3, 1, leaf("1")}, {"s", "y", 3, 1, leaf("1")}}
	if got := compareSteps(a, b); len(got) != 2 || got[0].kaas != "2" || !strings.Contains(got[1].path, "apart") {
		t.Errorf("%+v", got)
	}
}

// The variants of a plain request differ, and leave out what its version does not have.
func TestVariantsDiffer(t *testing.T) {
	s := &side{}
	for _, key := range []int16{3, 9, 44} {
		seen, names := map[string]bool{}, map[string]bool{}
		for name, set := range s.variants(key, 1) {
			req := plain(key, 1)
			set(valueOf(req))
			b := string(req.AppendTo(nil))
			if seen[b] || names[name] {
				t.Errorf("%s: %s stands twice", kmsg.NameForKey(key), name)
			}
			seen[b], names[name] = true, true
		}
		if len(seen) < 5 {
			t.Errorf("%s: only %d variants", kmsg.NameForKey(key), len(seen))
		}
	}
}
