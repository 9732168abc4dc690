package groups

import (
	"fmt"
	"testing"

	"kaas.dev/kaas/metalog"
)

// benchShard has that many groups, each with offsets of 10 partitions of one of 50 topics.
func benchShard(b *testing.B, n int) *Shard {
	b.Helper()
	all := make([]*Group, n)
	for i := range all {
		t := make(map[int32]Offset, 10)
		for p := range int32(10) {
			t[p] = Offset{Offset: int64(1_000_000 + i), LeaderEpoch: 3, Committed: 1_790_000_000_000 + int64(i), Expires: -1}
		}
		all[i] = &Group{ID: fmt.Sprintf("consumer-group-%06d", i), Offsets: Offsets{id(1 + i%50): t}, EmptySince: 1}
	}
	return &Shard{newTable(all)}
}

func benchCommit(group int) *OffsetsCommitted {
	f := &OffsetsCommitted{Group: fmt.Sprintf("consumer-group-%06d", group), Time: 1_790_000_000_000, Topics: []TopicOffsets{{Topic: id(1 + group%50)}}}
	for p := range int32(10) {
		f.Topics[0].Partitions = append(f.Topics[0].Partitions, PartitionOffset{p, 2_000_000, 3, "", -1})
	}
	return f
}

// BenchmarkApplyCommit applies a commit of 10 partitions to a view of 100,000 groups.
func BenchmarkApplyCommit(b *testing.B) {
	s := benchShard(b, 100_000)
	evs := make([][]metalog.Event, 1000)
	for i := range evs {
		evs[i] = []metalog.Event{mustEvent(b, benchCommit(i*97))}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var err error
		if s, err = Apply(s, evs[i%len(evs)]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(evs[0][0].Data)), "event-bytes")
}

// BenchmarkFold decodes a base of 100,000 groups of 10 partitions.
func BenchmarkFold(b *testing.B) {
	raw := mustEncode(b, benchShard(b, 100_000))
	b.ReportAllocs()
	for b.Loop() {
		if s, err := Decode(raw); err != nil || s.Len() != 100_000 {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(raw))/1e6, "base-MB")
}

// BenchmarkBase encodes it, which the owner does now and then between commits.
func BenchmarkBase(b *testing.B) {
	s := benchShard(b, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		mustEncode(b, s)
	}
}

// BenchmarkNewEvent encodes a commit of 10 partitions.
func BenchmarkNewEvent(b *testing.B) {
	f := benchCommit(1)
	b.ReportAllocs()
	for b.Loop() {
		mustEvent(b, f)
	}
}
