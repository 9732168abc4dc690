package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var topicScripts = []script{
	{"create topics", createScript},
	{"delete topics", deleteScript},
	{"partitions", partitionsScript},
	{"metadata", metadataScript},
	{"topics page by page", pagesScript},
}

func createScript(s *side) {
	s.create("there.is", 1)
	with := func(t kmsg.CreateTopicsRequestTopic, edit func(*kmsg.CreateTopicsRequestTopic)) kmsg.CreateTopicsRequestTopic {
		edit(&t)
		return t
	}
	replicas := func(n int16) func(*kmsg.CreateTopicsRequestTopic) {
		return func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = n }
	}
	assigned := func(partitions ...[]int32) func(*kmsg.CreateTopicsRequestTopic) {
		return func(t *kmsg.CreateTopicsRequestTopic) {
			t.NumPartitions, t.ReplicationFactor = -1, -1
			for i, brokers := range partitions {
				a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
				a.Partition, a.Replicas = int32(i), brokers
				t.ReplicaAssignment = append(t.ReplicaAssignment, a)
			}
		}
	}
	type topics = []kmsg.CreateTopicsRequestTopic
	for _, c := range []struct {
		label  string
		topics topics
	}{
		{"nothing", nil},
		{"one", topics{newTopic("new", 2)}},
		{"with configurations", topics{newTopic("new", 1, "retention.ms", "1000", "cleanup.policy", "compact,delete", "segment.bytes", "2000000")}},
		{"the broker's count", topics{newTopic("new", -1)}},
		{"no partitions", topics{newTopic("new", 0)}},
		{"fewer than none", topics{newTopic("new", -2)}},
		{"the broker's replicas", topics{with(newTopic("new", 1), replicas(-1))}},
		{"no replicas", topics{with(newTopic("new", 1), replicas(0))}},
		{"fewer replicas than none", topics{with(newTopic("new", 1), replicas(-2))}},
		{"too many replicas", topics{with(newTopic("new", 1), replicas(3))}},
		{"there already", topics{newTopic("there.is", 1)}},
		{"there already, and wrong", topics{newTopic("there.is", 0, "no.such", "1")}},
		{"a name like another", topics{newTopic("there_is", 1)}},
		{"no name", topics{newTopic("", 1)}},
		{"a dot", topics{newTopic(".", 1)}},
		{"two dots", topics{newTopic("..", 1)}},
		{"a blank", topics{newTopic("a b", 1)}},
		{"a slash", topics{newTopic("a/b", 1)}},
		{"too long", topics{newTopic(strings.Repeat("x", 250), 1)}},
		{"as long as it may be", topics{newTopic(strings.Repeat("x", 249), 1)}},
		{"an inner name", topics{newTopic("__consumer_offsets", 1)}},
		{"twice", topics{newTopic("new", 1), newTopic("other", 1), newTopic("new", 1)}},
		{"some of them", topics{newTopic("new", 1), newTopic("a b", 1), newTopic("other", 0)}},
		{"an unknown configuration", topics{newTopic("new", 1, "no.such", "1")}},
		{"a bad value", topics{newTopic("new", 1, "retention.ms", "long")}},
		{"a value out of bounds", topics{newTopic("new", 1, "segment.bytes", "-1")}},
		{"a small segment", topics{newTopic("new", 1, "segment.bytes", "100")}},
		{"a bad policy", topics{newTopic("new", 1, "cleanup.policy", "burn")}},
		{"an empty policy", topics{newTopic("new", 1, "cleanup.policy", "")}},
		{"a configuration twice", topics{newTopic("new", 1, "retention.ms", "1000", "retention.ms", "2000")}},
		{"a configuration without a name", topics{newTopic("new", 1, "", "1")}},
		{"an empty value", topics{newTopic("new", 1, "retention.ms", "")}},
		{"a null value", topics{with(newTopic("new", 1), func(t *kmsg.CreateTopicsRequestTopic) {
			t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
		})}},
		{"lags that do not fit", topics{newTopic("new", 1, "min.compaction.lag.ms", "100", "max.compaction.lag.ms", "10")}},
		{"tiers", topics{newTopic("new", 1, "remote.storage.enable", "true")}},
		{"throttled replicas", topics{newTopic("new", 1, "leader.replication.throttled.replicas", "0:1")}},
		{"badly throttled replicas", topics{newTopic("new", 1, "leader.replication.throttled.replicas", "x")}},
		{"assigned", topics{with(newTopic("new", 1), assigned([]int32{nodeID}, []int32{nodeID}))}},
		{"assigned to nobody", topics{with(newTopic("new", 1), assigned([]int32{}))}},
		{"assigned to an unknown one", topics{with(newTopic("new", 1), assigned([]int32{99}))}},
		{"assigned twice", topics{with(newTopic("new", 1), assigned([]int32{nodeID, nodeID}))}},
		{"assigned unevenly", topics{with(newTopic("new", 1), assigned([]int32{nodeID}, []int32{nodeID, 99}))}},
		{"assigned with a count", topics{with(newTopic("new", 1), func(t *kmsg.CreateTopicsRequestTopic) {
			assigned([]int32{nodeID})(t)
			t.NumPartitions, t.ReplicationFactor = 1, 1
		})}},
		{"assigned with a gap", topics{with(newTopic("new", 1), func(t *kmsg.CreateTopicsRequestTopic) {
			assigned([]int32{nodeID}, []int32{nodeID})(t)
			t.ReplicaAssignment[1].Partition = 2
		})}},
		{"assigned from the middle", topics{with(newTopic("new", 1), func(t *kmsg.CreateTopicsRequestTopic) {
			assigned([]int32{nodeID})(t)
			t.ReplicaAssignment[0].Partition = 1
		})}},
		{"a partition twice", topics{with(newTopic("new", 1), func(t *kmsg.CreateTopicsRequestTopic) {
			assigned([]int32{nodeID}, []int32{nodeID})(t)
			t.ReplicaAssignment[1].Partition = 0
		})}},
		{"as many partitions as may be", topics{newTopic("new", 9_000, "retention.ms", "1000"), newTopic("other", 997), newTopic("there.is", 1)}},
		{"one more than may be, its configuration counted", topics{newTopic("new", 9_000, "retention.ms", "1000"), newTopic("other", 998)}},
		{"one more than may be", topics{newTopic("new", 9_000), newTopic("other", 1_001)}},
		{"as many as may be, in one topic", topics{newTopic("new", 9_999)}},
		{"one more than may be, in one topic", topics{newTopic("new", 10_000)}},
		{"one more than may be, by the broker's count", topics{newTopic("new", 9_997), newTopic("other", -1)}},
		{"as many as may be, by the broker's count", topics{newTopic("new", 9_996), newTopic("other", -1), newTopic("a b", 1)}},
		{"far more than may be, beside others", topics{newTopic("new", 1), newTopic("a b", 1), newTopic("there.is", 1), newTopic("other", 2_000_000_000), newTopic("another", 2_000_000_000)}},
		{"more than may be of what is there", topics{newTopic("there.is", 10_001), newTopic("new", 1)}},
		{"more than may be of what stands twice", topics{newTopic("new", 1), newTopic("other", 9_000), newTopic("other", 9_000)}},
		{"many beside fewer than none", topics{newTopic("new", 10_000), newTopic("other", -2), newTopic("another", 0)}},
	} {
		each(s, c.label+", on trial", func(r *kmsg.CreateTopicsRequest) {
			r.Topics, r.ValidateOnly, r.TimeoutMillis = c.topics, true, 10_000
		})
	}
	for _, v := range s.served(kmsg.CreateTopics.Int16()) {
		name := fmt.Sprint("made-", v)
		s.ask("made", request(v, func(r *kmsg.CreateTopicsRequest) {
			r.Topics, r.TimeoutMillis = topics{newTopic(name, 2, "retention.bytes", "5000"), newTopic("there.is", 1), newTopic(name+".b", -1)}, 10_000
		}))
		s.awaitTopic(name, 2)
		s.ask("made again", request(v, func(r *kmsg.CreateTopicsRequest) {
			r.Topics, r.TimeoutMillis = topics{newTopic(name, 2)}, 10_000
		}))
	}
}

func deleteScript(s *side) {
	named := func(name string) kmsg.DeleteTopicsRequestTopic {
		return kmsg.DeleteTopicsRequestTopic{Topic: &name}
	}
	for _, v := range s.served(kmsg.DeleteTopics.Int16()) {
		del := func(label string, topics ...kmsg.DeleteTopicsRequestTopic) {
			s.ask(label, request(v, func(r *kmsg.DeleteTopicsRequest) {
				r.Topics, r.TimeoutMillis = topics, 10_000
				for _, t := range topics {
					if t.Topic != nil {
						r.TopicNames = append(r.TopicNames, *t.Topic)
					}
				}
			}))
		}
		one, two, three := fmt.Sprint("gone-a-", v), fmt.Sprint("gone-b-", v), fmt.Sprint("gone-c-", v)
		s.create(one, 1)
		s.create(two, 2)
		id := s.create(three, 1)
		del("nothing")
		del("unknown", named("no-such"))
		del("unknown twice", named("no-such"), named("no-such"))
		del("a bad name", named("a b"))
		del("an empty name", named(""))
		del("twice", named(one), named(one))
		del("one and an unknown one", named(one), named("no-such"))
		s.awaitGone(one)
		del("again", named(one))
		if v >= 6 {
			del("neither name nor ID", kmsg.DeleteTopicsRequestTopic{})
			del("name and ID", kmsg.DeleteTopicsRequestTopic{Topic: &two, TopicID: id})
			del("an unknown ID", kmsg.DeleteTopicsRequestTopic{TopicID: forged(1)})
			del("ID twice", kmsg.DeleteTopicsRequestTopic{TopicID: id}, kmsg.DeleteTopicsRequestTopic{TopicID: id})
			del("ID and its name", kmsg.DeleteTopicsRequestTopic{TopicID: id}, named(three))
			del("by ID", kmsg.DeleteTopicsRequestTopic{TopicID: id})
			s.awaitGone(three)
			del("by ID again", kmsg.DeleteTopicsRequestTopic{TopicID: id})
			del("the controller's log", kmsg.DeleteTopicsRequestTopic{TopicID: [16]byte{15: 1}})
		}
		del("the other", named(two))
		s.awaitGone(two)
		s.create(two, 1)
		del("the one that was made again", named(two))
		s.awaitGone(two)
	}
}

func partitionsScript(s *side) {
	s.create("grows", 2)
	s.create("grows-too", 1)
	count := int32(2)
	ask := func(v int16, label string, only bool, topics ...kmsg.CreatePartitionsRequestTopic) {
		s.ask(label, request(v, func(r *kmsg.CreatePartitionsRequest) {
			r.Topics, r.ValidateOnly, r.TimeoutMillis = topics, only, 10_000
		}))
	}
	to := func(name string, n int32, assigned ...[]int32) kmsg.CreatePartitionsRequestTopic {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = name, n
		for _, a := range assigned {
			t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: a})
		}
		return t
	}
	for _, v := range s.served(kmsg.CreatePartitions.Int16()) {
		for _, only := range []bool{true, false} {
			ask(v, "nothing", only)
			ask(v, "unknown", only, to("no-such", 3))
			ask(v, "a bad name", only, to("a b", 3))
			ask(v, "as many", only, to("grows", count))
			ask(v, "fewer", only, to("grows", 1))
			ask(v, "none", only, to("grows", 0))
			ask(v, "fewer than none", only, to("grows", -1))
			ask(v, "twice", only, to("grows", count+1), to("grows", count+2))
			ask(v, "assigned to an unknown one", only, to("grows", count+1, []int32{99}))
			ask(v, "assigned to nobody", only, to("grows", count+1, []int32{}))
			ask(v, "assigned twice", only, to("grows", count+1, []int32{nodeID, nodeID}))
			ask(v, "too few assigned", only, to("grows", count+2, []int32{nodeID}))
			ask(v, "too many assigned", only, to("grows", count+1, []int32{nodeID}, []int32{nodeID}))
			ask(v, "far too many", only, to("no-such", 200_000_000))
			ask(v, "more than a request may make", only, to("grows", count+10_001))
			ask(v, "more than it may make in two topics", only, to("grows", count+1), to("no-such", 5), to("grows-too", 20_000))
			ask(v, "more than it may make, assigned", only, to("grows", count+10_001, []int32{nodeID}))
			ask(v, "more than it may make, of what stands twice", only, to("grows", count+20_000), to("grows", count+20_000))
			ask(v, "as many as a request may make", true, to("grows", count+9_000), to("grows-too", 1_001))
			ask(v, "one more and an unknown one", true, to("grows", count+1), to("no-such", 1))
		}
		count++
		ask(v, "one more", false, to("grows", count, []int32{nodeID}))
		s.awaitTopic("grows", count)
	}
}

func metadataScript(s *side) {
	id := s.create("seen", 2)
	for _, label := range []string{"with operations", "without"} {
		ops := label == "with operations"
		one := func(label string, topics []kmsg.MetadataRequestTopic) {
			each(s, label, func(r *kmsg.MetadataRequest) {
				r.Topics, r.IncludeClusterAuthorizedOperations, r.IncludeTopicAuthorizedOperations = topics, ops, ops
			})
		}
		one("none", metadataTopics())
		one("one", metadataTopics("seen"))
		one("twice", metadataTopics("seen", "seen"))
		one("a bad name", metadataTopics("a b"))
		one("no name", metadataTopics(""))
		one("one and a bad name", metadataTopics("seen", ".."))
		from(s, 10, "by ID", func(r *kmsg.MetadataRequest) {
			r.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}}
			r.IncludeTopicAuthorizedOperations = ops
		})
		from(s, 10, "by an unknown ID", func(r *kmsg.MetadataRequest) {
			r.Topics = []kmsg.MetadataRequestTopic{{TopicID: forged(1)}}
			r.IncludeTopicAuthorizedOperations = ops
		})
	}
	from(s, 10, "ID and another's name", func(r *kmsg.MetadataRequest) {
		r.Topics = []kmsg.MetadataRequestTopic{{TopicID: id, Topic: ptr("no-such")}}
	})
	from(s, 10, "ID and its name", func(r *kmsg.MetadataRequest) {
		r.Topics = []kmsg.MetadataRequestTopic{{TopicID: id, Topic: ptr("seen")}}
	})
	from(s, 10, "neither ID nor name", func(r *kmsg.MetadataRequest) { r.Topics = []kmsg.MetadataRequestTopic{{}} })
	from(s, 10, "ID twice", func(r *kmsg.MetadataRequest) { r.Topics = []kmsg.MetadataRequestTopic{{TopicID: id}, {TopicID: id}} })
	from(s, 10, "by ID and by name", func(r *kmsg.MetadataRequest) {
		r.Topics = append(metadataTopics("seen"), kmsg.MetadataRequestTopic{TopicID: id})
	})
	each(s, "all", func(r *kmsg.MetadataRequest) { r.Topics = nil })
	from(s, 4, "unknown, not to be made", func(r *kmsg.MetadataRequest) {
		r.Topics, r.AllowAutoTopicCreation = metadataTopics("no-such", "seen"), false
	})
	for _, v := range s.served(kmsg.Metadata.Int16()) {
		name := fmt.Sprint("by-itself-", v)
		s.ask("to be made", request(v, func(r *kmsg.MetadataRequest) {
			r.Topics, r.AllowAutoTopicCreation = metadataTopics(name, "a b"), true
		}))
		s.awaitTopic(name, 2)
		s.ask("made", request(v, func(r *kmsg.MetadataRequest) { r.Topics = metadataTopics(name) }))
	}
}

func pagesScript(s *side) {
	s.create("page-a", 3)
	s.create("page-b", 2)
	type topics = []kmsg.DescribeTopicPartitionsRequestTopic
	for _, c := range []struct {
		label  string
		topics topics
		limit  int32
		cursor *kmsg.DescribeTopicPartitionsRequestCursor
	}{
		{"two", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 2000, nil},
		{"two in part", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 4, nil},
		{"one", topics{{Topic: "page-a"}}, 1, nil},
		{"from the middle", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 2, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "page-a", Partition: 1}},
		{"from a partition that is not there", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 2, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "page-a", Partition: 9}},
		{"from a negative partition", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 2, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "page-a", Partition: -1}},
		{"from the next", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 2, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "page-b"}},
		{"from none of them", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 2, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "page-aa"}},
		{"from behind", topics{{Topic: "page-b"}, {Topic: "page-a"}}, 2, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "z"}},
		{"unknown", topics{{Topic: "no-such"}, {Topic: "page-a"}}, 2000, nil},
		{"a bad name", topics{{Topic: "a b"}, {Topic: "page-a"}}, 2000, nil},
		{"twice", topics{{Topic: "page-a"}, {Topic: "page-a"}}, 2000, nil},
		{"no name", topics{{Topic: ""}}, 2000, nil},
		{"none of a page", topics{{Topic: "page-a"}}, 0, nil},
		{"less than none", topics{{Topic: "page-a"}}, -1, nil},
		{"all", topics{}, 2000, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "page-a"}},
	} {
		each(s, c.label, func(r *kmsg.DescribeTopicPartitionsRequest) {
			r.Topics, r.ResponsePartitionLimit, r.Cursor = c.topics, c.limit, c.cursor
		})
	}
}
