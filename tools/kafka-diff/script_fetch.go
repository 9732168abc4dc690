package main

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var fetchScripts = []script{
	{"fetch", fetchScript},
	{"fetch in sessions", sessionScript},
	{"fetch of nothing", emptyScript},
}

// get is a fetch from one partition.
func get(version int16, topic string, id [16]byte, partition int32, offset int64) *kmsg.FetchRequest {
	return request(version, func(r *kmsg.FetchRequest) {
		r.MaxWaitMillis, r.MinBytes, r.MaxBytes, r.ReplicaID, r.SessionEpoch = 0, 1, 50<<20, -1, -1
		r.Topics = []kmsg.FetchRequestTopic{getTopic(topic, id, getPartition(partition, offset))}
	})
}

func getTopic(topic string, id [16]byte, partitions ...kmsg.FetchRequestTopicPartition) kmsg.FetchRequestTopic {
	return kmsg.FetchRequestTopic{Topic: topic, TopicID: id, Partitions: partitions}
}

func getPartition(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch, p.LastFetchedEpoch = partition, offset, 1<<20, -1, -1
	return p
}

func fetchScript(s *side) {
	id := s.create("got", 2)
	for i := range 5 {
		s.produce("got", 0, batch(nil, values(fmt.Sprint("a", i), "b", "c")...))
	}
	s.produce("got", 0, batch(compressed(kgo.GzipCompression(), 1), values("x", "y")...))
	s.produce("got", 0, batch(compressed(kgo.ZstdCompression(), 4), values("x", "y")...))
	s.produce("got", 0, batch(nil, rec{value: make([]byte, 5000)}))
	for _, v := range s.served(kmsg.Fetch.Int16()) {
		ask := func(label string, edit func(*kmsg.FetchRequest)) {
			r := get(v, "got", id, 0, 0)
			edit(r)
			s.ask(label, r)
		}
		one := func(r *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition { return &r.Topics[0].Partitions[0] }
		for _, offset := range []int64{0, 1, 3, 7, 15, 16, 17, 19, 20, 21, 100, -1, -2, -3, math.MaxInt64, math.MinInt64} {
			ask(fmt.Sprint("from ", offset), func(r *kmsg.FetchRequest) { one(r).FetchOffset = offset })
		}
		for _, most := range []int32{0, 1, 100, 200, -1, math.MaxInt32} {
			ask(fmt.Sprint("of a partition ", most), func(r *kmsg.FetchRequest) { one(r).PartitionMaxBytes = most })
			ask(fmt.Sprint("in all ", most), func(r *kmsg.FetchRequest) { r.MaxBytes = most })
		}
		for _, epoch := range []int32{0, 1, 100, -2} {
			ask(fmt.Sprint("leader epoch ", epoch), func(r *kmsg.FetchRequest) { one(r).CurrentLeaderEpoch = s.epoch(epoch) })
			ask(fmt.Sprint("last fetched epoch ", epoch), func(r *kmsg.FetchRequest) { one(r).LastFetchedEpoch = s.epoch(epoch) })
		}
		ask("committed", func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 })
		ask("an unknown isolation", func(r *kmsg.FetchRequest) { r.IsolationLevel = 7 })
		ask("an unknown partition", func(r *kmsg.FetchRequest) { one(r).Partition = 9 })
		ask("a negative partition", func(r *kmsg.FetchRequest) { one(r).Partition = -1 })
		ask("an unknown topic", func(r *kmsg.FetchRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = "no-such", forged(1) })
		ask("no topic", func(r *kmsg.FetchRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = "", [16]byte{} })
		ask("a bad name", func(r *kmsg.FetchRequest) { r.Topics[0].Topic, r.Topics[0].TopicID = "a b", forged(2) })
		ask("nothing", func(r *kmsg.FetchRequest) { r.Topics = nil })
		ask("no partitions", func(r *kmsg.FetchRequest) { r.Topics[0].Partitions = nil })
		ask("another cluster", func(r *kmsg.FetchRequest) { r.ClusterID = ptr("another") })
		ask("a rack", func(r *kmsg.FetchRequest) { r.Rack = "rack-1" })
		ask("another rack", func(r *kmsg.FetchRequest) { r.Rack = "rack-2" })
		ask("two", func(r *kmsg.FetchRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, getPartition(1, 0))
		})
		ask("two of little", func(r *kmsg.FetchRequest) {
			r.MaxBytes = 1
			r.Topics[0].Partitions = []kmsg.FetchRequestTopicPartition{getPartition(1, 0), getPartition(0, 0)}
		})
		ask("a partition twice", func(r *kmsg.FetchRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, getPartition(0, 3))
		})
		ask("wrong and right", func(r *kmsg.FetchRequest) {
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, getPartition(9, 0))
			r.Topics = append(r.Topics, getTopic("no-such", forged(1), getPartition(0, 0)))
		})
		ask("the end, with a wait", func(r *kmsg.FetchRequest) { one(r).FetchOffset, r.MaxWaitMillis = 20, 100 })
		ask("more than there is, with a wait", func(r *kmsg.FetchRequest) { r.MinBytes, r.MaxWaitMillis = 1<<20, 100 })
		ask("a negative wait", func(r *kmsg.FetchRequest) { r.MaxWaitMillis = -1 })
		ask("a negative least", func(r *kmsg.FetchRequest) { r.MinBytes = -1 })
		ask("as an unknown follower", func(r *kmsg.FetchRequest) { asReplica(r, 5) })
		ask("a request of debuggers", func(r *kmsg.FetchRequest) { asReplica(r, -2) })
	}
}

// emptyScript opens sessions of no partition.
func emptyScript(s *side) {
	for _, v := range s.served(kmsg.Fetch.Int16()) {
		if v < 7 {
			continue
		}
		r := get(v, "", [16]byte{}, 0, 0)
		r.Topics, r.SessionEpoch = nil, 0
		session := s.ask("a session", r).(*kmsg.FetchResponse).SessionID
		r = get(v, "", [16]byte{}, 0, 0)
		r.Topics, r.SessionID, r.SessionEpoch = nil, session, 1
		s.ask("in it", r)
	}
}

func asReplica(r *kmsg.FetchRequest, id int32) {
	if r.Version < 15 {
		r.ReplicaID = id
	} else {
		r.ReplicaState.ID = id
	}
}

func sessionScript(s *side) {
	for _, v := range s.served(kmsg.Fetch.Int16()) {
		if v < 7 {
			continue
		}
		topic := fmt.Sprint("session-", v)
		id := s.create(topic, 3)
		s.produce(topic, 0, batch(nil, values("a")...))
		session := int32(0)
		ask := func(label string, epoch int32, edit func(*kmsg.FetchRequest)) *kmsg.FetchResponse {
			r := get(v, topic, id, 0, 0)
			r.Topics, r.SessionID, r.SessionEpoch = nil, session, epoch
			if edit != nil {
				edit(r)
			}
			return s.ask(label, r).(*kmsg.FetchResponse)
		}
		all := func(r *kmsg.FetchRequest) {
			r.Topics = []kmsg.FetchRequestTopic{getTopic(topic, id, getPartition(0, 0), getPartition(1, 0), getPartition(2, 0))}
		}
		for _, c := range []struct{ id, epoch int32 }{{0, 1}, {0, -1}, {0, -2}, {5, 0}, {5, 1}, {5, -1}, {-1, 0}} {
			session = c.id
			ask(fmt.Sprint("session ", c.id, ", epoch ", c.epoch), c.epoch, all)
		}
		session = 0
		session = ask("a session", 0, all).SessionID
		ask("no news", 1, nil)
		s.produce(topic, 1, batch(nil, values("b")...))
		ask("news", 2, nil)
		ask("read on", 3, func(r *kmsg.FetchRequest) {
			r.Topics = []kmsg.FetchRequestTopic{getTopic(topic, id, getPartition(0, 1))}
		})
		ask("one less", 4, func(r *kmsg.FetchRequest) {
			r.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: topic, TopicID: id, Partitions: []int32{1, 9}}}
		})
		ask("an epoch again", 4, nil)
		ask("an epoch too far", 9, nil)
		ask("an unknown partition", 5, func(r *kmsg.FetchRequest) {
			r.Topics = []kmsg.FetchRequestTopic{getTopic(topic, id, getPartition(9, 0)), getTopic("no-such", forged(1), getPartition(0, 0))}
		})
		ask("still", 6, nil)
		ask("out of range", 7, func(r *kmsg.FetchRequest) {
			r.Topics = []kmsg.FetchRequestTopic{getTopic(topic, id, getPartition(0, 50))}
		})
		ask("the end", -1, nil)
		ask("after the end", 8, nil)
		if v >= 13 {
			session = 0
			session = ask("a session of what is deleted", 0, all).SessionID
			s.remove(topic)
			ask("deleted", 1, nil)
			s.create(topic, 3)
			ask("made again", 2, nil)
			ask("as the new one", 3, func(r *kmsg.FetchRequest) {
				r.Topics = []kmsg.FetchRequestTopic{getTopic(topic, id, getPartition(0, 0))}
			})
		}
	}
}

// remove deletes a topic and waits until it is gone.
func (s *side) remove(topic string) {
	s.quiet(request(5, func(r *kmsg.DeleteTopicsRequest) { r.TopicNames, r.TimeoutMillis = []string{topic}, 10_000 }))
	s.awaitGone(topic)
}
