package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var offsetScripts = []script{
	{"list offsets", listOffsetsScript},
	{"ends of epochs", epochsScript},
	{"delete records", deleteRecordsScript},
}

// timed are three batches, the second with the latest time.
func (s *side) timed(topic string) {
	for _, add := range []int64{0, 10_000, 5_000} {
		s.produce(topic, 0, batch(func(b *kmsg.RecordBatch) {
			b.FirstTimestamp, b.MaxTimestamp = firstTime+add, firstTime+add+200
		}, rec{value: []byte("a")}, rec{value: []byte("b"), time: 200}, rec{value: []byte("c"), time: 100}))
	}
}

func listOffsetsScript(s *side) {
	s.create("at", 2)
	s.timed("at")
	ask := func(label, topic string, partition int32, timestamp int64, edit func(*kmsg.ListOffsetsRequest)) {
		each(s, label, func(r *kmsg.ListOffsetsRequest) {
			r.ReplicaID, r.Topics, r.TimeoutMillis = -1, offsetsOf(topic, partition, timestamp), 5000
			if edit != nil {
				edit(r)
			}
		})
	}
	for _, at := range []int64{-1, -2, -3, -4, -5, -6, -7, -100, 0, 1, firstTime - 1, firstTime, firstTime + 1, firstTime + 100, firstTime + 200,
		firstTime + 201, firstTime + 6000, firstTime + 10_000, firstTime + 10_200, firstTime + 10_201, 1 << 62} {
		ask(fmt.Sprint("at ", at), "at", 0, at, nil)
		ask(fmt.Sprint("of nothing at ", at), "at", 1, at, nil)
	}
	for _, at := range []int64{-1, -2, -3, firstTime} {
		ask(fmt.Sprint("committed at ", at), "at", 0, at, func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 1 })
		ask(fmt.Sprint("an unknown partition at ", at), "at", 9, at, nil)
		ask(fmt.Sprint("a negative partition at ", at), "at", -1, at, nil)
		ask(fmt.Sprint("an unknown topic at ", at), "no-such", 0, at, nil)
		ask(fmt.Sprint("a bad name at ", at), "a b", 0, at, nil)
		ask(fmt.Sprint("as a follower at ", at), "at", 0, at, func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = 5 })
		ask(fmt.Sprint("as a debugger at ", at), "at", 0, at, func(r *kmsg.ListOffsetsRequest) { r.ReplicaID = -2 })
		for _, epoch := range []int32{0, 1, 99, -2} {
			ask(fmt.Sprint("leader epoch ", epoch, " at ", at), "at", 0, at, func(r *kmsg.ListOffsetsRequest) {
				r.Topics[0].Partitions[0].CurrentLeaderEpoch = s.epoch(epoch)
			})
		}
	}
	ask("nothing", "at", 0, 0, func(r *kmsg.ListOffsetsRequest) { r.Topics = nil })
	ask("no partitions", "at", 0, 0, func(r *kmsg.ListOffsetsRequest) { r.Topics[0].Partitions = nil })
	ask("a partition twice", "at", 0, -1, func(r *kmsg.ListOffsetsRequest) {
		p := r.Topics[0].Partitions[0]
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
	})
	ask("a topic twice", "at", 0, -1, func(r *kmsg.ListOffsetsRequest) { r.Topics = append(r.Topics, offsetsOf("at", 1, -1)...) })
	ask("an unknown isolation", "at", 0, -1, func(r *kmsg.ListOffsetsRequest) { r.IsolationLevel = 9 })
}

func epochsScript(s *side) {
	s.create("ends", 1)
	s.produce("ends", 0, batch(nil, values("a", "b")...))
	for _, epoch := range []int32{-2, -1, 0, 1, 99} {
		for _, current := range []int32{-2, -1, 0, 1, 99} {
			for _, partition := range []int32{0, 7, -1} {
				each(s, fmt.Sprintf("partition %d, epoch %d at %d", partition, epoch, current), func(r *kmsg.OffsetForLeaderEpochRequest) {
					r.ReplicaID = -1
					r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "ends", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
						{Partition: partition, LeaderEpoch: s.epoch(epoch), CurrentLeaderEpoch: s.epoch(current)},
					}}}
				})
			}
		}
	}
	for _, topic := range []string{"no-such", "a b", ""} {
		each(s, "topic "+topic, func(r *kmsg.OffsetForLeaderEpochRequest) {
			r.ReplicaID = -1
			r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
		})
	}
	each(s, "nothing", func(r *kmsg.OffsetForLeaderEpochRequest) { r.ReplicaID = -1 })
	each(s, "twice", func(r *kmsg.OffsetForLeaderEpochRequest) {
		p := kmsg.OffsetForLeaderEpochRequestTopicPartition{CurrentLeaderEpoch: -1, LeaderEpoch: s.epoch(0)}
		r.ReplicaID = -1
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "ends", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p, p}}}
	})
}

func deleteRecordsScript(s *side) {
	s.create("cut", 2)
	s.create("cut-compacted", 1, "cleanup.policy", "compact")
	s.timed("cut")
	for _, v := range s.served(kmsg.DeleteRecords.Int16()) {
		ask := func(label string, topic string, partition int32, offset int64) {
			s.ask(label, request(v, func(r *kmsg.DeleteRecordsRequest) {
				r.TimeoutMillis = 10_000
				r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
			}))
		}
		ask("before the start", "cut", 0, 0)
		ask("some", "cut", 0, int64(v)+1)
		ask("fewer", "cut", 0, 0)
		ask("beyond the end", "cut", 0, 100)
		ask("a negative offset", "cut", 0, -2)
		ask("of an unknown partition", "cut", 9, 0)
		ask("of a negative partition", "cut", -1, 0)
		ask("of an unknown topic", "no-such", 0, 0)
		ask("of a bad name", "a b", 0, 0)
		ask("of a compacted topic", "cut-compacted", 0, 0)
		ask("of the inner topic", "__consumer_offsets", 0, 0)
		ask("all of nothing", "cut", 1, -1)
		s.ask("nothing", request(v, func(r *kmsg.DeleteRecordsRequest) { r.TimeoutMillis = 10_000 }))
		s.ask("no time", request(v, func(r *kmsg.DeleteRecordsRequest) {
			r.TimeoutMillis = 0
			r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "cut", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: int64(v) + 1}, {Partition: 1}}}}
		}))
	}
	at := func(label string, offset int64) {
		s.ask(label, get(12, "cut", [16]byte{}, 0, offset))
		for _, time := range []int64{-1, -2, -3, -4, firstTime} {
			s.ask(label, request(10, func(r *kmsg.ListOffsetsRequest) { r.ReplicaID, r.Topics = -1, offsetsOf("cut", 0, time) }))
		}
	}
	at("what is left", 3)
	at("what is deleted", 2)
	at("in the middle of a batch", 4)
	s.ask("all", newest(s, func(r *kmsg.DeleteRecordsRequest) {
		r.TimeoutMillis = 10_000
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "cut", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: -1}}}}
	}))
	at("at the end", 9)
	at("before it", 8)
}
