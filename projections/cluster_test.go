package projections

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
)

func TestBrokerLife(t *testing.T) {
	c := NewCluster()
	apply := func(f Fact) { t.Helper(); c = fold(t, c, []metalog.Event{mustEvent(t, f)}) }
	is := func(epoch int64, incarnation string, fenced bool) {
		t.Helper()
		b, ok := c.Broker(4)
		if !ok || b.Epoch != epoch || b.Incarnation != incarnation || b.Fenced != fenced || c.Alive(4) == fenced {
			t.Fatalf("broker is %+v (%v), alive %v; want epoch %d of %s, fenced %v", b, ok, c.Alive(4), epoch, incarnation, fenced)
		}
	}
	if c.Alive(4) || c.NextBrokerEpoch() != 1 {
		t.Fatalf("before registration: alive %v, next epoch %d", c.Alive(4), c.NextBrokerEpoch())
	}
	apply(&BrokerRegistered{ID: 4, Epoch: 2, Incarnation: "a", Fenced: true})
	is(2, "a", true)
	apply(&BrokerUnfenced{ID: 4, Epoch: 1}) // of an older registration
	is(2, "a", true)
	apply(&BrokerUnfenced{ID: 4, Epoch: 2})
	is(2, "a", false)
	apply(&BrokerRegistered{ID: 4, Epoch: 2, Incarnation: "b", Fenced: true}) // not above
	is(2, "a", false)
	apply(&BrokerRegistered{ID: 4, Epoch: 3, Incarnation: "b"})
	apply(&BrokerFenced{ID: 4, Epoch: 2})
	apply(&BrokerUnregistered{ID: 4, Epoch: 2})
	is(3, "b", false)

	apply(&TopicCreated{ID: id(1), Name: "t", Partitions: 1})
	apply(&PartitionLeaderChanged{TopicID: id(1), Leader: 4, Epoch: 1})
	apply(&ControllerChanged{Node: 4})
	apply(&BrokerUnregistered{ID: 4, Epoch: 3})
	if _, ok := c.Broker(4); ok || c.Alive(4) {
		t.Fatal("the broker is still there")
	}
	if c.Topic("t").Partitions[0].Leader != 4 || c.Controller() != 4 {
		t.Fatal("unregistering a broker changed more than the broker")
	}
	if c.NextBrokerEpoch() != 4 {
		t.Fatalf("next broker epoch is %d: an epoch could be given twice", c.NextBrokerEpoch())
	}
}

func TestController(t *testing.T) {
	c := NewCluster()
	for _, step := range []struct{ node, want int32 }{{3, 3}, {0, 0}, {-7, 0}, {NoLeader, NoLeader}} {
		c = fold(t, c, []metalog.Event{mustEvent(t, &ControllerChanged{Node: step.node})})
		if c.Controller() != step.want {
			t.Fatalf("after %d the controller is %d, want %d", step.node, c.Controller(), step.want)
		}
	}
	if got := NewCluster().Controller(); got != NoLeader {
		t.Fatalf("an empty view has controller %d", got)
	}
}

func TestShardLife(t *testing.T) {
	c := NewCluster()
	apply := func(f Fact) { t.Helper(); c = fold(t, c, []metalog.Event{mustEvent(t, f)}) }
	apply(&ShardOwnerChanged{Kind: ShardGroups, Shard: 0, Owner: 1, Epoch: 1}) // not made yet
	if _, ok := c.ShardOf(ShardGroups, "g"); ok || len(c.Shards(ShardGroups)) != 0 {
		t.Fatal("there are shards before they are made")
	}
	for _, bad := range []*ShardsMade{{ShardGroups, 0}, {ShardGroups, -1}, {ShardGroups, MaxShards + 1}, {"", 3}} {
		apply(bad)
	}
	if !c.Equal(NewCluster()) {
		t.Fatal("absurd shards were made")
	}
	apply(&ShardsMade{Kind: ShardGroups, Count: 3})
	apply(&ShardsMade{Kind: ShardGroups, Count: 5}) // the first counts
	apply(&ShardOwnerChanged{Kind: ShardGroups, Shard: 1, Owner: 7, Epoch: 2, Handover: true})
	apply(&ShardOwnerChanged{Kind: ShardGroups, Shard: 1, Owner: 8, Epoch: 2}) // not above
	apply(&ShardOwnerChanged{Kind: ShardGroups, Shard: 3, Owner: 8, Epoch: 2}) // not there
	apply(&ShardOwnerChanged{Kind: ShardTxns, Shard: 0, Owner: 8, Epoch: 2})
	want := []Partition{{Leader: NoLeader}, {7, 2, true}, {Leader: NoLeader}}
	if got := c.Shards(ShardGroups); !reflect.DeepEqual(got, want) || len(c.Shards(ShardTxns)) != 0 {
		t.Fatalf("shards are %v, want %v; others %v", got, want, c.Shards(ShardTxns))
	}
}

func TestShardOf(t *testing.T) {
	c := fold(t, NewCluster(), []metalog.Event{mustEvent(t, &ShardsMade{Kind: ShardGroups, Count: 50})})
	// The hashes are Java's, the shards those of Kafka's __consumer_offsets.
	for _, k := range []struct {
		key         string
		hash, shard int32
	}{
		{"", 0, 0},
		{"a", 97, 47},
		{"hello", 99162322, 22},
		{"é", 233, 33},
		{"😀", 1772899, 49},
		{"polygenelubricants", math.MinInt32, 0}, // has no absolute value
		{"my-group", -1906497762, 12},
		{"console-consumer-1", 35782224, 24},
		{"orders😀", 1236093704, 4},
	} {
		if got := javaHash(k.key); got != k.hash {
			t.Errorf("hash of %q is %d, want %d", k.key, got, k.hash)
		}
		if got, ok := c.ShardOf(ShardGroups, k.key); !ok || got != k.shard {
			t.Errorf("%q is in shard %d (%v), want %d", k.key, got, ok, k.shard)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		want := int32(0)
		for _, u := range utf16.Encode([]rune(key)) {
			want = 31*want + int32(u)
		}
		if got := javaHash(key); got != want {
			t.Fatalf("hash of %q is %d, want %d", key, got, want)
		}
	})
}

// A batch that changes many shards and partitions clones each list once.
func TestBatchClonesOnce(t *testing.T) {
	facts := []Fact{&TopicCreated{ID: id(1), Name: "t", Partitions: 500}, &ShardsMade{Kind: ShardGroups, Count: 500}}
	evs, err := NewEvents(facts...)
	if err != nil {
		t.Fatal(err)
	}
	c := fold(t, NewCluster(), evs)
	before := slices.Clone(c.Shards(ShardGroups))
	d := newDraft(c)
	(&ShardOwnerChanged{Kind: ShardGroups, Shard: 0, Owner: 1, Epoch: 1}).apply(d)
	first := &d.shards[ShardGroups][0]
	(&ShardOwnerChanged{Kind: ShardGroups, Shard: 1, Owner: 1, Epoch: 1}).apply(d)
	if first != &d.shards[ShardGroups][0] {
		t.Error("the second change of a batch cloned again")
	}
	if !reflect.DeepEqual(c.Shards(ShardGroups), before) {
		t.Error("the old view changed")
	}
}

func TestDecodeRefusesWhatNoFoldGives(t *testing.T) {
	two := topicBody{ID: id(1), Name: "a"}
	for name, tc := range map[string]struct {
		state stateBody
		want  string
	}{
		"half a partition":  {stateBody{Topics: []topicBody{{ID: id(1), Name: "a", Partitions: []int32{1, 1}}}}, "numbers"},
		"unknown flag":      {stateBody{Topics: []topicBody{{ID: id(1), Name: "a", Partitions: []int32{1, 1, 2}}}}, "flags"},
		"topic twice":       {stateBody{Topics: []topicBody{two, two}}, "twice"},
		"no shards":         {stateBody{Shards: []shardsBody{{Kind: ShardGroups}}}, "none"},
		"kind twice":        {stateBody{Shards: []shardsBody{{ShardGroups, []int32{1, 1, 0}}, {ShardGroups, []int32{1, 1, 0}}}}, "twice"},
		"kind without name": {stateBody{Shards: []shardsBody{{"", []int32{1, 1, 0}}}}, "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := encode(&tc.state)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(raw); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
