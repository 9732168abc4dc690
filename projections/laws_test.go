package projections

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

func fold(t rapid.TB, c *Cluster, evs []metalog.Event) *Cluster {
	t.Helper()
	next, err := Apply(c, evs)
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

func mustEncode(t rapid.TB, c *Cluster) []byte {
	t.Helper()
	b, err := Encode(c)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

func id(n int) TopicID { return TopicID{0: 1, 15: byte(n)} }

// anyFact draws a fact that may be about nothing, absurd, or a repetition.
func anyFact(t *rapid.T) Fact {
	num := func(name string) int32 { return rapid.Int32Range(-2, 6).Draw(t, name) }
	topic := func() TopicID {
		if n := rapid.IntRange(0, 4).Draw(t, "topic"); n > 0 {
			return id(n)
		}
		return TopicID{}
	}
	name := rapid.SampledFrom([]string{"a", "b", "a.b", "a_b", "", "../x"})
	set := rapid.MapOfN(rapid.SampledFrom([]string{"k", "l", "m"}), rapid.SampledFrom([]string{"1", "2"}), 0, 3)
	kind := rapid.SampledFrom([]ShardKind{ShardGroups, ShardTxns, ""})
	if rapid.IntRange(0, 4).Draw(t, "producers") == 0 {
		return producerFact(t)
	}
	if rapid.IntRange(0, 9).Draw(t, "quotas") == 0 {
		return quotaFact(t)
	}
	if rapid.IntRange(0, 15).Draw(t, "restored") == 0 {
		return restoredFact(t)
	}
	if rapid.Bool().Draw(t, "cluster") {
		return clusterFact(t, num, kind)
	}
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 10:
		return &ACLsCreated{ACLs: rapid.SliceOfN(someACL, 0, 3).Draw(t, "created")}
	case 11:
		return &ACLsDeleted{ACLs: rapid.SliceOfN(someACL, 0, 3).Draw(t, "deleted")}
	case 8:
		return &ScramCredentialSet{User: name.Draw(t, "user"), Mechanism: ScramMechanism(rapid.IntRange(0, 3).Draw(t, "mechanism")), Iterations: num("iterations"),
			Salt: rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "salt"), StoredKey: []byte{1}, ServerKey: []byte{}, SetAt: int64(num("at"))}
	case 9:
		return &ScramCredentialRemoved{User: name.Draw(t, "user"), Mechanism: ScramMechanism(rapid.IntRange(0, 3).Draw(t, "mechanism"))}
	case 0, 1:
		return &TopicCreated{ID: topic(), Name: name.Draw(t, "name"), Partitions: num("partitions"), Configs: set.Draw(t, "set"), CreatedAt: int64(num("at"))}
	case 2:
		return &TopicDeleted{ID: topic()}
	case 3:
		return &TopicRemoved{ID: topic()}
	case 4:
		return &PartitionsAdded{TopicID: topic(), Partitions: num("partitions")}
	case 5:
		return &PartitionLeaderChanged{TopicID: topic(), Partition: num("partition"), Leader: num("leader"), Epoch: num("epoch"), Handover: rapid.Bool().Draw(t, "handover")}
	case 6:
		return &ConfigChanged{Resource: rapid.SampledFrom([]string{ResourceTopic, ResourceBroker, ResourceGroup, ResourceClientMetrics, "x"}).Draw(t, "resource"),
			Name: name.Draw(t, "name"), TopicID: topic(), Set: set.Draw(t, "set"),
			Deleted: rapid.SliceOfN(rapid.SampledFrom([]string{"k", "l"}), 0, 2).Draw(t, "deleted")}
	default:
		return &ProducerIDsAllocated{First: rapid.Int64().Draw(t, "first"), Count: rapid.Int64().Draw(t, "count")}
	}
}

// quotaFact draws a fact about few entities, one of which is none.
func quotaFact(t *rapid.T) Fact {
	name := rapid.SampledFrom([]QuotaName{{}, {Default: true}, {Name: "a"}, {Name: "b"}})
	value := rapid.SampledFrom([]float64{1, 0.5, math.NaN()})
	return &QuotasChanged{Entity: QuotaEntity{User: name.Draw(t, "user"), ClientID: name.Draw(t, "client"), IP: name.Draw(t, "address")},
		Set:     rapid.MapOfN(rapid.SampledFrom([]string{"k", "l"}), value, 0, 2).Draw(t, "quotas"),
		Deleted: rapid.SliceOfN(rapid.SampledFrom([]string{"k", "l"}), 0, 2).Draw(t, "no quotas")}
}

// restoredFact draws one of any view.
func restoredFact(t *rapid.T) Fact {
	var evs []metalog.Event
	for range rapid.IntRange(0, 10).Draw(t, "restored events") {
		evs = append(evs, mustEvent(t, anyFact(t)))
	}
	return &Restored{From: substrate.Position{Epoch: 1, Seq: 2}, State: mustEncode(t, fold(t, NewCluster(), evs))}
}

// producerFact draws a fact about few producers, at times that are not in order.
func producerFact(t *rapid.T) Fact {
	at := rapid.Int64Range(-1, 20).Draw(t, "at")
	if rapid.IntRange(0, 4).Draw(t, "expired") == 0 {
		return &ProducerFencesExpired{Before: at}
	}
	return &ProducerFenced{ProducerID: rapid.Int64Range(-1, 5).Draw(t, "producer"), Epoch: rapid.Int16Range(-1, 5).Draw(t, "epoch"), Time: at}
}

// clusterFact draws a fact about brokers and shards, few of them, so that many of
// the facts are about the same.
func clusterFact(t *rapid.T, num func(string) int32, kind *rapid.Generator[ShardKind]) Fact {
	broker, epoch := rapid.Int32Range(0, 2).Draw(t, "broker"), int64(rapid.IntRange(0, 4).Draw(t, "broker epoch"))
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0, 1:
		return &BrokerRegistered{ID: broker, Epoch: epoch, Incarnation: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "incarnation"),
			Fenced: rapid.Bool().Draw(t, "fenced"), Listeners: []Listener{{Name: "PLAINTEXT", Host: "h", Port: num("port")}}}
	case 2:
		return &BrokerFenced{ID: broker, Epoch: epoch}
	case 3:
		return &BrokerUnfenced{ID: broker, Epoch: epoch}
	case 4:
		return &BrokerUnregistered{ID: broker, Epoch: epoch}
	case 5:
		return &ControllerChanged{Node: num("node")}
	case 6:
		return &ShardsMade{Kind: kind.Draw(t, "of"), Count: num("count")}
	default:
		return &ShardOwnerChanged{Kind: kind.Draw(t, "of"), Shard: num("shard"), Owner: num("owner"), Epoch: num("epoch"), Handover: rapid.Bool().Draw(t, "handover")}
	}
}

// history draws what a controller could have published: each fact is true of the
// view it is published on.
func history(t *rapid.T) []metalog.Event {
	var evs []metalog.Event
	c := NewCluster()
	nextID := 0
	for range rapid.IntRange(0, 40).Draw(t, "length") {
		f := anyFact(t)
		if tc, ok := f.(*TopicCreated); ok && !tc.ID.IsZero() {
			nextID++
			tc.ID = id(nextID) // an ID is never drawn twice
		}
		next := fold(t, c, []metalog.Event{mustEvent(t, f)})
		if next.Equal(c) {
			continue
		}
		evs, c = append(evs, mustEvent(t, f)), next
	}
	return evs
}

func TestReplayingAPrefixChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		evs := history(t)
		n := rapid.IntRange(0, len(evs)).Draw(t, "prefix")
		once := fold(t, NewCluster(), evs[:n])
		if twice := fold(t, once, evs[:n]); !twice.Equal(once) {
			t.Fatalf("prefix of %d events folded twice gives another view", n)
		}
		whole := fold(t, NewCluster(), evs)
		if again := fold(t, once, evs); !again.Equal(whole) {
			t.Fatalf("history over its own prefix of %d gives another view", n)
		}
	})
}

func TestSnapshotPlusSuffixIsTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var evs []metalog.Event
		for range rapid.IntRange(0, 40).Draw(t, "length") {
			evs = append(evs, mustEvent(t, anyFact(t)))
		}
		whole := fold(t, NewCluster(), evs)
		n := rapid.IntRange(0, len(evs)).Draw(t, "cut")
		snap, err := Decode(mustEncode(t, fold(t, NewCluster(), evs[:n])))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if got := fold(t, snap, evs[n:]); !got.Equal(whole) {
			t.Fatalf("cut at %d gives another view", n)
		}
		// One by one is the same as in one batch.
		one := NewCluster()
		for _, ev := range evs {
			one = fold(t, one, []metalog.Event{ev})
		}
		if !one.Equal(whole) {
			t.Fatal("event by event gives another view than one batch")
		}
	})
}

func TestEqualViewsHaveEqualBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var evs []metalog.Event
		for range rapid.IntRange(0, 40).Draw(t, "length") {
			evs = append(evs, mustEvent(t, anyFact(t)))
		}
		c := fold(t, NewCluster(), evs)
		b := mustEncode(t, c)
		back, err := Decode(b)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if !back.Equal(c) || !bytes.Equal(mustEncode(t, back), b) || !bytes.Equal(mustEncode(t, fold(t, NewCluster(), evs)), b) {
			t.Fatal("encoding is not a function of the view")
		}
	})
}

func TestApplyLeavesTheOldViewAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := fold(t, NewCluster(), history(t))
		before := mustEncode(t, c)
		var evs []metalog.Event
		for range rapid.IntRange(1, 10).Draw(t, "more") {
			evs = append(evs, mustEvent(t, anyFact(t)))
		}
		fold(t, c, evs)
		if !bytes.Equal(mustEncode(t, c), before) {
			t.Fatal("the old view changed")
		}
	})
}

func TestViewsHoldTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var evs []metalog.Event
		for range rapid.IntRange(0, 40).Draw(t, "length") {
			evs = append(evs, mustEvent(t, anyFact(t)))
		}
		c := fold(t, NewCluster(), evs)
		for _, topic := range c.Topics() {
			if c.Topic(topic.Name) != topic || c.TopicByID(topic.ID) != topic || ValidateTopicName(topic.Name) != nil {
				t.Fatalf("topic %s is not what its name and ID lead to", topic.Name)
			}
			if _, ok := c.Removing()[topic.ID]; ok {
				t.Fatalf("topic %s lives and is being removed", topic.Name)
			}
		}
		if len(c.names) != len(c.topics) {
			t.Fatalf("%d names for %d topics", len(c.names), len(c.topics))
		}
	})
}

func TestApplyOfAnyBytesNeverPanics(t *testing.T) {
	names := []string{"unheard-of"}
	for name := range registry.All() {
		names = append(names, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := fold(t, NewCluster(), history(t))
		ev := metalog.Event{Type: rapid.SampledFrom(names).Draw(t, "type"), Data: rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "data")}
		next, err := Apply(c, []metalog.Event{mustEvent(t, &TopicCreated{ID: id(99), Name: "z", Partitions: 1}), ev})
		if (next == nil) == (err == nil) {
			t.Fatalf("view %v with error %v", next, err)
		}
		_, _ = Describe(ev)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(mustEncode(f, NewCluster()))
	c := fold(f, NewCluster(), []metalog.Event{
		mustEvent(f, &TopicCreated{ID: id(1), Name: "a", Partitions: 2, Configs: map[string]string{"k": "v"}}),
		mustEvent(f, &ShardsMade{Kind: ShardGroups, Count: 2}),
		mustEvent(f, &ShardOwnerChanged{Kind: ShardGroups, Shard: 1, Owner: 1, Epoch: 1, Handover: true}),
		mustEvent(f, &ControllerChanged{Node: 1}),
		mustEvent(f, &BrokerRegistered{ID: 1, Epoch: 1, Listeners: []Listener{{"P", "h", 1}}}),
	})
	f.Add(mustEncode(f, c))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := Decode(b)
		if err != nil {
			return
		}
		if _, err := Decode(mustEncode(t, c)); err != nil {
			t.Fatalf("what was decoded does not survive a round trip: %v", err)
		}
	})
}

func FuzzEvent(f *testing.F) {
	for name, make := range registry.All() {
		ev := mustEvent(f, make())
		f.Add(name, []byte(ev.Data))
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		_, _ = Apply(NewCluster(), []metalog.Event{{Type: name, Data: msgpack.RawMessage(data)}})
	})
}

func BenchmarkApplyOneLeader(b *testing.B) {
	c := NewCluster()
	for i := range 2000 {
		tid := TopicID{0: 2, 14: byte(i >> 8), 15: byte(i)}
		c = fold(b, c, []metalog.Event{mustEvent(b, &TopicCreated{ID: tid, Name: fmt.Sprintf("t%d", i), Partitions: 5})})
	}
	ev := []metalog.Event{mustEvent(b, &PartitionLeaderChanged{TopicID: TopicID{0: 2}, Partition: 1, Leader: 1, Epoch: 5})}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Apply(c, ev); err != nil {
			b.Fatal(err)
		}
	}
}
