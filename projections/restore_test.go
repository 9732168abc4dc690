package projections

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
)

func anyFiles(TopicID) int32 { return MaxPartitions }

// someView draws the view after facts on top of another.
func someView(t *rapid.T, on *Cluster) *Cluster {
	for range rapid.IntRange(0, 30).Draw(t, "facts") {
		on = fold(t, on, []metalog.Event{mustEvent(t, anyFact(t))})
	}
	return on
}

// What only rises is never below what it was then, nor below what it is now, whichever of
// the two is the later one.
func TestRestoreLowersNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		then := someView(t, NewCluster())
		now := someView(t, then)
		if rapid.Bool().Draw(t, "ahead") {
			then, now = now, then
		}
		got := Restore(then, now, anyFiles).View
		for _, old := range []*Cluster{then, now} {
			if got.nextProducerID < old.nextProducerID || got.brokerEpoch < old.brokerEpoch || got.fencesExpired < old.fencesExpired {
				t.Fatalf("%+v is below %+v", got, old)
			}
			for id, f := range old.fences.All {
				if g, ok := got.fences.Get(id); f.time >= got.fencesExpired && (!ok || g.epoch < f.epoch) {
					t.Fatalf("producer %d is fenced below %d, was below %d", id, g.epoch, f.epoch)
				}
			}
			for _, topic := range old.Topics() {
				cur := got.TopicByID(topic.ID)
				if cur == nil {
					continue
				}
				if len(cur.Partitions) < len(topic.Partitions) {
					t.Fatalf("topic %s has %d partitions, had %d", topic.Name, len(cur.Partitions), len(topic.Partitions))
				}
				for i, p := range topic.Partitions {
					if cur.Partitions[i].Epoch < p.Epoch {
						t.Fatalf("%s-%d: epoch %d, was %d", topic.Name, i, cur.Partitions[i].Epoch, p.Epoch)
					}
				}
			}
			for id, b := range old.brokers {
				if g, ok := got.brokers[id]; ok && g.Epoch < b.Epoch {
					t.Fatalf("broker %d is registered with epoch %d, was with %d", id, g.Epoch, b.Epoch)
				}
			}
		}
		for kind, ss := range now.shards {
			if len(got.shards[kind]) != len(ss) {
				t.Fatalf("%d shards of %s, have %d", len(got.shards[kind]), kind, len(ss))
			}
		}
		for id, topic := range now.topics {
			if got.topics[id] == nil || got.topics[id].Name != topic.Name {
				t.Fatalf("topic %s is lost", topic.Name)
			}
		}
		if !maps.Equal(got.removing, now.removing) {
			t.Fatalf("removing %v, want %v", got.removing, now.removing)
		}
		for id, topic := range then.topics {
			if cur := got.topics[id]; cur != nil && !maps.Equal(cur.Configs, topic.Configs) {
				t.Fatalf("topic %s is configured %v, was %v", topic.Name, cur.Configs, topic.Configs)
			}
		}
		if !maps.EqualFunc(got.groupConfigs, then.groupConfigs, maps.Equal) {
			t.Fatalf("groups are configured %v, were %v", got.groupConfigs, then.groupConfigs)
		}
		if !maps.EqualFunc(got.clientMetrics, then.clientMetrics, maps.Equal) {
			t.Fatalf("subscriptions to clients' metrics are %v, were %v", got.clientMetrics, then.clientMetrics)
		}
		if !got.quotas.equal(then.quotas) {
			t.Fatalf("quotas are %v, were %v", got.quotas, then.quotas)
		}
	})
}

// A restored view is one that a base can hold, and restoring it once more changes nothing.
func TestRestoreTwiceIsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		then := someView(t, NewCluster())
		now := someView(t, then)
		if rapid.Bool().Draw(t, "ahead") {
			then, now = now, then
		}
		before := mustEncode(t, now)
		files := func(id TopicID) int32 { return int32(id[15]) % 3 * 4 }
		once := Restore(then, now, files).View
		back, err := Decode(mustEncode(t, once))
		if err != nil || !back.Equal(once) {
			t.Fatalf("a base does not hold it: %v", err)
		}
		if twice := Restore(then, once, files).View; !twice.Equal(once) {
			t.Fatalf("once %s\ntwice %s", mustEncode(t, once), mustEncode(t, twice))
		}
		if !slices.Equal(mustEncode(t, now), before) {
			t.Fatal("the view of now has changed")
		}
	})
}

func TestRestoreTopics(t *testing.T) {
	var c *Cluster
	apply := func(fs ...Fact) *Cluster {
		t.Helper()
		for _, f := range fs {
			c = fold(t, c, []metalog.Event{mustEvent(t, f)})
		}
		return c
	}
	c = NewCluster()
	then := apply(
		&BrokerRegistered{ID: 1, Epoch: 1}, &BrokerRegistered{ID: 2, Epoch: 2}, &BrokerRegistered{ID: 3, Epoch: 3},
		&TopicCreated{ID: id(1), Name: "kept", Partitions: 2, Configs: map[string]string{"retention.ms": "1"}},
		&TopicCreated{ID: id(2), Name: "going", Partitions: 1},
		&TopicCreated{ID: id(3), Name: "gone", Partitions: 1},
		&TopicCreated{ID: id(4), Name: "remade", Partitions: 1},
		&TopicCreated{ID: id(5), Name: "lost", Partitions: 2},
		&PartitionLeaderChanged{TopicID: id(1), Leader: 1, Epoch: 3},
		&PartitionLeaderChanged{TopicID: id(5), Leader: 2, Epoch: 4},
		&ProducerIDsAllocated{First: 0, Count: 1000},
	)
	now := apply(
		&ConfigChanged{Resource: ResourceTopic, TopicID: id(1), Set: map[string]string{"cleanup.policy": "compact"}, Deleted: []string{"retention.ms"}},
		&PartitionsAdded{TopicID: id(1), Partitions: 3}, &PartitionLeaderChanged{TopicID: id(1), Leader: 2, Epoch: 5},
		&TopicDeleted{ID: id(2)},
		&TopicDeleted{ID: id(3)}, &TopicRemoved{ID: id(3)},
		&TopicDeleted{ID: id(4)}, &TopicRemoved{ID: id(4)}, &TopicCreated{ID: id(6), Name: "remade", Partitions: 1},
		&TopicDeleted{ID: id(5)}, &TopicRemoved{ID: id(5)},
		&BrokerUnregistered{ID: 3, Epoch: 3}, &BrokerFenced{ID: 2, Epoch: 2},
		&ProducerIDsAllocated{First: 1000, Count: 1000},
	)
	r := Restore(then, now, func(id TopicID) int32 {
		return map[byte]int32{1: 3, 2: 1, 4: 1, 5: 2, 6: 1}[id[15]]
	})
	kept := r.View.Topic("kept")
	if kept == nil || !maps.Equal(kept.Configs, map[string]string{"retention.ms": "1"}) || len(kept.Partitions) != 3 || kept.Partitions[0] != (Partition{2, 5, false}) {
		t.Errorf("kept is %+v", kept)
	}
	if r.View.Topic("going") != nil || r.View.Topic("gone") != nil || r.View.Topic("remade").ID != id(6) {
		t.Errorf("topics are %v", r.View.Topics())
	}
	// Its leader of then is fenced now; its epoch goes above that of then.
	if lost := r.View.Topic("lost"); lost == nil || lost.Partitions[0] != (Partition{1, 5, false}) {
		t.Errorf("lost is %+v", lost)
	}
	if len(r.Since) != 1 || r.Since[0].ID != id(6) {
		t.Errorf("made since: %v", r.Since)
	}
	if _, ok := r.View.Broker(3); ok {
		t.Error("broker 3, which was unregistered, is back")
	}
	for what, lines := range map[string][]string{
		"restored": {"topic kept, retention.ms=1, cleanup.policy back to default", "topic lost (" + id(5).String() + ")"},
		"raised":   {"kept keeps its 3 partitions, then 2", "1 leader epoch(s) stay higher than then, such as kept-0: 5, then 3", "producer IDs go on from 2000, then 1000"},
		"left out": {"broker 3: it was unregistered", "topic going", "topic gone", "its name is that of another topic now, " + id(6).String()},
	} {
		got := strings.Join(map[string][]string{"restored": r.Restored, "raised": r.Raised, "left out": r.LeftOut}[what], "\n")
		for _, l := range lines {
			if !strings.Contains(got, l) {
				t.Errorf("%s lacks %q:\n%s", what, l, got)
			}
		}
	}
}

// Where the chosen view is ahead, as a file may be of a volume that was taken back.
func TestRestoreOfALaterView(t *testing.T) {
	var c *Cluster
	apply := func(fs ...Fact) *Cluster {
		for _, f := range fs {
			c = fold(t, c, []metalog.Event{mustEvent(t, f)})
		}
		return c
	}
	c = NewCluster()
	now := apply(&BrokerRegistered{ID: 1, Epoch: 1, Incarnation: "a", Session: "s"},
		&TopicCreated{ID: id(1), Name: "t", Partitions: 1}, &PartitionLeaderChanged{TopicID: id(1), Leader: 1, Epoch: 3},
		&ShardsMade{Kind: ShardTxns, Count: 2}, &ProducerFenced{ProducerID: 7, Epoch: 2, Time: 10})
	then := apply(&BrokerRegistered{ID: 1, Epoch: 4, Incarnation: "b", Session: "r"}, &BrokerRegistered{ID: 2, Epoch: 5},
		&PartitionsAdded{TopicID: id(1), Partitions: 4}, &PartitionLeaderChanged{TopicID: id(1), Leader: 2, Epoch: 9, Handover: true},
		&ShardOwnerChanged{Kind: ShardTxns, Shard: 1, Owner: 2, Epoch: 6}, &ProducerFenced{ProducerID: 7, Epoch: 5, Time: 20})
	r := Restore(then, now, func(TopicID) int32 { return 2 })
	t1 := r.View.Topic("t")
	if len(t1.Partitions) != 2 || t1.Partitions[0] != (Partition{1, 9, false}) || t1.Partitions[1].Leader != 1 {
		t.Errorf("t is %+v", t1)
	}
	if got := r.View.Shards(ShardTxns); !reflect.DeepEqual(got, []Partition{{Leader: NoLeader}, {NoLeader, 6, false}}) {
		t.Errorf("shards are %v", got)
	}
	// The process that is registered goes on, under the epoch that is the highest.
	if b, _ := r.View.Broker(1); b.Epoch != 4 || b.Incarnation != "a" || b.Session != "s" || b.Fenced {
		t.Errorf("broker 1 is %+v", b)
	}
	if b, ok := r.View.Broker(2); !ok || !b.Fenced {
		t.Errorf("broker 2 is %+v, %v", b, ok)
	}
	if e, _ := r.View.FencedEpoch(7); e != 5 || r.View.NextBrokerEpoch() != 6 {
		t.Errorf("producer 7 is fenced below %d; the next registration is %d", e, r.View.NextBrokerEpoch())
	}
	if !strings.Contains(strings.Join(r.LeftOut, "\n"), "partitions 2 to 3 of topic t: their files are gone") {
		t.Errorf("left out: %v", r.LeftOut)
	}
}
