package projections

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/metalog"
)

func TestFactsSayThemselves(t *testing.T) {
	for name, tc := range map[string]struct {
		fact Fact
		want []string
	}{
		"TopicCreated":           {&TopicCreated{ID: id(1), Name: "orders", Partitions: 3, Configs: map[string]string{"retention.ms": "1"}}, []string{"orders", "3", "retention.ms=1", id(1).String()}},
		"TopicDeleted":           {&TopicDeleted{ID: id(1), Name: "orders"}, []string{"orders", "deleted"}},
		"TopicRemoved":           {&TopicRemoved{ID: id(1), Name: "orders"}, []string{"orders", "removed"}},
		"PartitionsAdded":        {&PartitionsAdded{TopicID: id(1), Topic: "orders", Partitions: 9}, []string{"orders", "9"}},
		"PartitionLeaderChanged": {&PartitionLeaderChanged{TopicID: id(1), Partition: 2, Leader: 4, Epoch: 7, Handover: true}, []string{id(1).String() + "/2", "broker 4", "epoch 7", "handover"}},
		"BrokerRegistered":       {&BrokerRegistered{ID: 4, Epoch: 2, Incarnation: "5f-aa", Rack: "east", Fenced: true, Listeners: []Listener{{"PLAINTEXT", "h", 9092}}}, []string{"broker 4", "PLAINTEXT://h:9092", "5f-aa", "rack east", "fenced"}},
		"BrokerFenced":           {&BrokerFenced{ID: 4, Epoch: 2}, []string{"broker 4 fenced", "epoch 2"}},
		"BrokerUnfenced":         {&BrokerUnfenced{ID: 4, Epoch: 2}, []string{"broker 4 unfenced", "epoch 2"}},
		"BrokerUnregistered":     {&BrokerUnregistered{ID: 4, Epoch: 2}, []string{"broker 4 unregistered", "epoch 2"}},
		"ControllerChanged":      {&ControllerChanged{Node: 4, Incarnation: "5f-aa"}, []string{"broker 4", "controller", "5f-aa"}},
		"ShardsMade":             {&ShardsMade{Kind: ShardGroups, Count: 50}, []string{"50", "groups"}},
		"ShardOwnerChanged":      {&ShardOwnerChanged{Kind: ShardTxns, Shard: 3, Owner: NoLeader, Epoch: 7}, []string{"txns/03", "nobody", "epoch 7"}},
		"ConfigChanged":          {&ConfigChanged{Resource: ResourceTopic, Name: "orders", TopicID: id(1), Set: map[string]string{"a": "b"}, Deleted: []string{"c"}}, []string{"orders", "a=b", "c back to default"}},
		"ScramCredentialSet":     {&ScramCredentialSet{User: "alice", Mechanism: ScramSHA512, Iterations: 4096, Salt: Secret("pepper"), StoredKey: Secret("key1"), ServerKey: Secret("key2"), SetAt: 7}, []string{"alice", "SCRAM-SHA-512", "4096"}},
		"ScramCredentialRemoved": {&ScramCredentialRemoved{User: "alice", Mechanism: ScramSHA256}, []string{"alice", "SCRAM-SHA-256"}},
		"QuotasChanged":          {&QuotasChanged{Entity: QuotaEntity{User: QuotaName{Name: "alice"}, ClientID: QuotaName{Default: true}}, Set: QuotaValues{"producer_byte_rate": 1 << 20}, Deleted: []string{"request_percentage"}}, []string{`user "alice", default client ID`, "producer_byte_rate=1048576", "request_percentage none"}},
		"ACLsCreated":            {&ACLsCreated{ACLs: []ACL{anACL(ACLRead)}}, []string{"created", "User:alice ALLOW READ TOPIC:LITERAL:orders from 10.0.0.0/8"}},
		"ACLsDeleted":            {&ACLsDeleted{ACLs: []ACL{anACL(ACLRead), anACL(ACLWrite)}}, []string{"deleted 2 ACLs", "READ TOPIC"}},
		"ProducerIDsAllocated":   {&ProducerIDsAllocated{First: 1000, Count: 1000, Broker: 4}, []string{"1000", "broker 4"}},
		"ProducerFenced":         {&ProducerFenced{ProducerID: 4711, Epoch: 3, Time: 5}, []string{"producer 4711", "epoch 3"}},
		"ProducerFencesExpired":  {&ProducerFencesExpired{Before: 1_700_000_000_000}, []string{"fences", "2023-11-14"}},
		"Restored":               {&Restored{From: substrate.Position{Epoch: 6, Seq: 43}, Time: 1_700_000_000_000, State: mustEncode(t, NewCluster())}, []string{"cluster", "6-43", "2023-11-14"}},
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
	if len(registry.All()) != 22 {
		t.Errorf("%d kinds of events are registered: give the new one a line above", len(registry.All()))
	}
}

func TestUnknownEventsAreReportedAndLeftOut(t *testing.T) {
	ev := metalog.Event{Type: "MoonLanded", Data: []byte{0xc0}}
	if Known(ev) || ClusterSchema().Known(ev) {
		t.Fatal("MoonLanded is known")
	}
	if c := fold(t, NewCluster(), []metalog.Event{ev}); !c.Equal(NewCluster()) {
		t.Fatal("an unknown event changed the view")
	}
	if _, err := DecodeEvent(ev); err == nil || !strings.Contains(err.Error(), "MoonLanded") {
		t.Fatalf("error %v does not name it", err)
	}
}

func TestDamagedEventAppliesNothing(t *testing.T) {
	good := mustEvent(t, &TopicCreated{ID: id(1), Name: "a", Partitions: 1})
	bad := metalog.Event{Type: "TopicDeleted", Data: []byte{0x81}}
	c, err := Apply(NewCluster(), []metalog.Event{good, bad})
	if c != nil || err == nil || !strings.Contains(err.Error(), "event 2 of 2") {
		t.Fatalf("got %v, %v", c, err)
	}
}

func TestTopicLife(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := NewCluster()
	apply := func(f Fact) { t.Helper(); c = fold(t, c, []metalog.Event{mustEvent(t, f)}) }

	apply(&TopicCreated{ID: id(1), Name: "a", Partitions: 2, CreatedAt: at.UnixMilli()})
	if got := c.Topic("a"); got == nil || got.ID != id(1) || !got.CreatedAt.Equal(at) || got.Partitions[1] != (Partition{Leader: NoLeader}) {
		t.Fatalf("topic is %+v", got)
	}
	apply(&PartitionLeaderChanged{TopicID: id(1), Partition: 1, Leader: 0, Epoch: 3, Handover: true})
	apply(&PartitionLeaderChanged{TopicID: id(1), Partition: 1, Leader: 9, Epoch: 3}) // not above
	apply(&PartitionLeaderChanged{TopicID: id(1), Partition: 2, Leader: 9, Epoch: 4}) // not there
	apply(&PartitionsAdded{TopicID: id(1), Partitions: 3})
	apply(&PartitionsAdded{TopicID: id(1), Partitions: 1}) // never shrinks
	want := []Partition{{Leader: NoLeader}, {0, 3, true}, {Leader: NoLeader}}
	if got := c.TopicByID(id(1)).Partitions; !reflect.DeepEqual(got, want) {
		t.Fatalf("partitions are %v, want %v", got, want)
	}
	apply(&TopicCreated{ID: id(2), Name: "a", Partitions: 1}) // the name is in use
	apply(&TopicDeleted{ID: id(1), Name: "a"})
	if c.Topic("a") != nil || c.Removing()[id(1)] != "a" {
		t.Fatalf("after deletion: %v, removing %v", c.Topic("a"), c.Removing())
	}
	apply(&TopicCreated{ID: id(1), Name: "a", Partitions: 1}) // deleted stays deleted
	apply(&TopicCreated{ID: id(3), Name: "a", Partitions: 1})
	if got := c.Topic("a"); got == nil || got.ID != id(3) || len(c.Topics()) != 1 {
		t.Fatalf("made again: %+v", got)
	}
	apply(&TopicRemoved{ID: id(1)})
	if len(c.Removing()) != 0 || c.Topic("a") == nil {
		t.Fatalf("still removing %v", c.Removing())
	}
}

func TestTopicNames(t *testing.T) {
	for _, good := range []string{"a", "A", "orders", "a.b", "a_b", "a-b", "...", "0", "Upper.Case_9-", strings.Repeat("x", 249)} {
		if err := ValidateTopicName(good); err != nil {
			t.Errorf("%q refused: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/b", "../x", "a\\b", "a b", "a\x00b", "ä", "a\n", "~x", "a:b", "%2e%2e", strings.Repeat("x", 250)} {
		err := ValidateTopicName(bad)
		if !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("%q: %v, want %v", bad, err, kerr.InvalidTopicException)
		}
	}
}

func TestNamesCollide(t *testing.T) {
	c := fold(t, NewCluster(), []metalog.Event{mustEvent(t, &TopicCreated{ID: id(1), Name: "a.b_c", Partitions: 1})})
	for name, want := range map[string]bool{"a.b_c": false, "a_b_c": true, "a.b.c": true, "a-b-c": false, "abc": false, "x.y": false} {
		if got := errors.Is(c.CheckCollision(name), kerr.InvalidTopicException); got != want {
			t.Errorf("%s collides: %v, want %v", name, got, want)
		}
	}
}

func TestTopicIDs(t *testing.T) {
	tid := NewTopicID()
	got, err := ParseTopicID(tid.String())
	if err != nil || got != tid || tid.IsZero() {
		t.Fatalf("%s came back as %s, %v", tid, got, err)
	}
	for _, bad := range []string{"", "x", strings.Repeat("0", 32), strings.ToUpper("ab" + strings.Repeat("0", 30)), strings.Repeat("g", 32), tid.String() + "0"} {
		if _, err := ParseTopicID(bad); err == nil {
			t.Errorf("%q is taken for a topic ID", bad)
		}
	}
}
