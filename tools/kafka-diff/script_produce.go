package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var produceScripts = []script{
	{"produce", produceScript},
	{"produce bad batches", badBatchScript},
	{"produce in sequence", sequenceScript},
	{"produce to what is configured", configuredScript},
}

// put is a request with one batch.
func put(version int16, acks int16, topic string, id [16]byte, partition int32, records []byte) *kmsg.ProduceRequest {
	return request(version, func(r *kmsg.ProduceRequest) {
		r.Acks, r.TimeoutMillis = acks, 10_000
		r.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: records}}}}
	})
}

// produce produces, and nothing of it is compared.
func (s *side) produce(topic string, partition int32, records []byte) {
	s.quiet(put(9, -1, topic, [16]byte{}, partition, records))
}

func (s *side) produceVersions() []int16 { return s.served(kmsg.Produce.Int16()) }

func produceScript(s *side) {
	id := s.create("put", 2)
	twice := s.create("put-twice", 28)
	other := s.create("put-three", 1)
	for _, v := range s.produceVersions() {
		one := func(label string, acks int16, topic string, id [16]byte, partition int32, records []byte) {
			s.ask(label, put(v, acks, topic, id, partition, records))
		}
		good := batch(nil, values("a", "b")...)
		for acks := int16(-2); acks < 3; acks++ {
			one(fmt.Sprint("acks ", acks), acks, "put", id, 0, good)
		}
		for acks := int16(-1); acks < 2; acks++ {
			one("an unknown topic", acks, "no-such", forged(1), 0, good)
			one("an unknown partition", acks, "put", id, 7, good)
			one("a negative partition", acks, "put", id, -1, good)
			one("a bad name", acks, "a b", forged(2), 0, good)
		}
		one("no topic", -1, "", [16]byte{}, 0, good)
		one("the inner topic", -1, "__consumer_offsets", forged(3), 0, good)
		s.ask("no topics", request(v, func(r *kmsg.ProduceRequest) { r.Acks = -1 }))
		s.ask("no partitions", request(v, func(r *kmsg.ProduceRequest) {
			r.Acks, r.Topics = -1, []kmsg.ProduceRequestTopic{{Topic: "put", TopicID: id}}
		}))
		s.ask("several", request(v, func(r *kmsg.ProduceRequest) {
			r.Acks = -1
			r.Topics = []kmsg.ProduceRequestTopic{
				{Topic: "put", TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 1, Records: good}, {Partition: 0, Records: good}, {Partition: 9, Records: good}}},
				{Topic: "put-three", TopicID: other, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: good}}},
			}
		}))
		s.ask("a partition twice", request(v, func(r *kmsg.ProduceRequest) {
			r.Acks = -1
			r.Topics = []kmsg.ProduceRequestTopic{{Topic: "put-twice", TopicID: twice, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 2 * int32(v), Records: good}, {Partition: 2 * int32(v), Records: good}}}}
		}))
		s.ask("a topic twice", request(v, func(r *kmsg.ProduceRequest) {
			r.Acks = -1
			t := kmsg.ProduceRequestTopic{Topic: "put-twice", TopicID: twice, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 2*int32(v) + 1, Records: good}}}
			r.Topics = []kmsg.ProduceRequestTopic{t, t}
		}))
		s.ask("no time", request(v, func(r *kmsg.ProduceRequest) {
			r.Acks, r.TimeoutMillis = -1, 0
			r.Topics = []kmsg.ProduceRequestTopic{{Topic: "put", TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: good}}}}
		}))
		s.ask("a transaction's name without one", request(v, func(r *kmsg.ProduceRequest) {
			r.Acks, r.TransactionID = -1, ptr("tx")
			r.Topics = []kmsg.ProduceRequestTopic{{Topic: "put", TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: good}}}}
		}))
		for kind, codec := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
			one(fmt.Sprint("codec ", kind+1), -1, "put", id, 1, batch(compressed(codec, int16(kind+1)), values(strings.Repeat("a", 500), "b")...))
		}
		one("nulls", -1, "put", id, 1, batch(nil, rec{}, rec{key: []byte{}, value: []byte{}}, rec{key: []byte("k")}))
		one("headers", -1, "put", id, 1, batch(nil, rec{value: []byte("v"), headers: []kmsg.Header{{Key: "h", Value: []byte("1")}, {Key: "h"}, {Key: "", Value: []byte{}}}}))
		one("times", -1, "put", id, 1, batch(nil, rec{value: []byte("v")}, rec{time: 1000}, rec{time: 5}))
	}
}

func badBatchScript(s *side) {
	good := batch(nil, values("a", "b")...)
	edit := func(at int, b ...byte) []byte { // and no new checksum
		out := bytes.Clone(good)
		copy(out[at:], b)
		return out
	}
	sealed := func(f func(*kmsg.RecordBatch)) []byte { return batch(f, values("a", "b")...) }
	body := func(records []byte, count int32) []byte {
		return sealed(func(b *kmsg.RecordBatch) { b.Records, b.NumRecords, b.LastOffsetDelta = records, count, count-1 })
	}
	cases := []struct {
		label   string
		records []byte
	}{
		{"no bytes", []byte{}},
		{"three bytes", []byte{1, 2, 3}},
		{"zeroes", make([]byte, 100)},
		{"a wrong checksum", edit(17, 1, 2, 3, 4)},
		{"magic 0", edit(16, 0)},
		{"magic 1", edit(16, 1)},
		{"magic 3", edit(16, 3)},
		{"magic -1", edit(16, 255)},
		{"a length that is too short", edit(8, 0, 0, 0, 10)},
		{"a length that is too long", edit(8, 0, 1, 0, 0)},
		{"a negative length", edit(8, 255, 255, 255, 255)},
		{"cut short", good[:len(good)-3]},
		{"a byte too many", append(bytes.Clone(good), 0)},
		{"two batches", append(bytes.Clone(good), good...)},
		{"a batch and a half", append(bytes.Clone(good), good[:30]...)},
		{"an offset to begin with", edit(0, 0, 0, 0, 0, 0, 0, 0, 5)},
		{"a leader epoch", edit(12, 0, 0, 0, 5)},
		{"no records", sealed(func(b *kmsg.RecordBatch) { b.Records, b.NumRecords, b.LastOffsetDelta = nil, 0, -1 })},
		{"no records, last offset 0", sealed(func(b *kmsg.RecordBatch) { b.Records, b.NumRecords, b.LastOffsetDelta = nil, 0, 0 })},
		{"fewer records than told", sealed(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 3, 2 })},
		{"more records than told", sealed(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 1, 0 })},
		{"a negative number of records", sealed(func(b *kmsg.RecordBatch) { b.NumRecords = -1 })},
		{"a last offset that is too large", sealed(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 5 })},
		{"a last offset that is too small", sealed(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 0 })},
		{"a negative last offset", sealed(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = -1 })},
		{"a control batch", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 0x20 })},
		{"a transaction without a producer", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 0x10 })},
		{"the broker's time", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 0x08 })},
		{"an unknown codec", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 5 })},
		{"another unknown codec", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 7 })},
		{"an unknown attribute", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 0x100 })},
		{"a horizon for deletes", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 0x40 })},
		{"gzip that is none", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 1 })},
		{"snappy that is none", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 2 })},
		{"lz4 that is none", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 3 })},
		{"zstd that is none", sealed(func(b *kmsg.RecordBatch) { b.Attributes = 4 })},
		{"no time", sealed(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = -1, -1 })},
		{"a negative time", sealed(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = -5, -5 })},
		{"a time to come", sealed(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = math.MaxInt64/2, math.MaxInt64/2 })},
		{"a wrong last time", sealed(func(b *kmsg.RecordBatch) { b.MaxTimestamp = 5 })},
		{"a producer without an epoch", sealed(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = foreignProducer, -1, 0 })},
		{"a producer without a sequence", sealed(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = foreignProducer, 0, -1 })},
		{"a negative producer", sealed(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = -2, 0, 0 })},
		{"a sequence without a producer", sealed(func(b *kmsg.RecordBatch) { b.FirstSequence = 0 })},
		{"an epoch without a producer", sealed(func(b *kmsg.RecordBatch) { b.ProducerEpoch = 0 })},
		{"records that are none", body([]byte{2, 1, 2, 3}, 1)},
		{"a record that ends early", body([]byte{40, 0, 0, 0, 1}, 1)},
		{"a record of no bytes", body([]byte{0}, 1)},
		{"a record of a negative length", body([]byte{1}, 1)},
		{"a key that ends early", body([]byte{12, 0, 0, 0, 40, 1, 0}, 1)},
		{"headers that end early", body([]byte{14, 0, 0, 0, 1, 1, 20, 2}, 1)},
		{"a negative number of headers", body([]byte{12, 0, 0, 0, 1, 1, 1}, 1)},
		{"offsets that skip", body([]byte{12, 0, 0, 6, 1, 1, 0}, 1)},
		{"larger than a batch may be", batch(nil, rec{value: make([]byte, 1_100_000)})},
	}
	id := s.create("bad", int32(len(cases))) // a partition for each, so that it is not the last one's offsets that differ
	for i, c := range cases {
		for _, v := range []int16{3, 7, 9, s.common[0].max} {
			s.ask(c.label, put(v, -1, "bad", id, int32(i), c.records))
			s.ask(c.label, put(v, 0, "bad", id, int32(i), c.records))
		}
	}
}

func sequenceScript(s *side) {
	producer := func() (int64, int16) {
		resp := s.ask("a producer", newest(s, func(r *kmsg.InitProducerIDRequest) {})).(*kmsg.InitProducerIDResponse)
		return resp.ProducerID, resp.ProducerEpoch
	}
	for _, v := range []int16{3, 9, s.common[0].max} {
		topic, n := fmt.Sprint("seq-", v), int32(-1)
		id := s.create(topic, 6)
		p, epoch := producer()
		send := func(label string, p int64, epoch int16, seq int32, vs ...string) {
			s.ask(label, put(v, -1, topic, id, n, batch(func(b *kmsg.RecordBatch) {
				b.ProducerID, b.ProducerEpoch, b.FirstSequence = p, epoch, seq
			}, values(vs...)...)))
		}
		n++
		send("a gap to begin with", p, epoch, 5, "a")
		send("the next", p, epoch, 6, "a")
		n++
		p, _ = producer()
		send("the first", p, epoch, 0, "a")
		send("again", p, epoch, 0, "a")
		send("two", p, epoch, 1, "b", "c")
		send("a gap", p, epoch, 9, "d")
		send("the next", p, epoch, 3, "d")
		send("not quite again", p, epoch, 1, "b")
		for i := range int32(6) {
			send("further", p, epoch, 4+i, "e")
		}
		send("one of the last five", p, epoch, 6, "e")
		send("what is long gone", p, epoch, 0, "a")
		n++
		send("a first one of the next partition", p, epoch, 0, "a")
		send("a new epoch that does not begin", p, epoch+1, 10, "f")
		send("a new epoch", p, epoch+1, 0, "f")
		send("the old epoch", p, epoch, 10, "f")
		send("a far epoch", p, epoch+100, 0, "f")
		send("an unknown producer", foreignProducer+int64(v), 3, 0, "g")
		send("an unknown producer amid", foreignProducer+100+int64(v), 0, 7, "g")
		n++
		p, _ = producer()
		send("the last sequence", p, epoch, math.MaxInt32-1, "h", "i")
		send("around", p, epoch, 0, "j")
		n++
		p, _ = producer()
		send("a sequence that wraps", p, epoch, math.MaxInt32, "h", "i", "k")
		send("after it", p, epoch, 2, "j")
	}
	each(s, "the producers", func(r *kmsg.DescribeProducersRequest) {
		r.Topics = []kmsg.DescribeProducersRequestTopic{
			{Topic: "seq-9", Partitions: []int32{0, 1, 2, 7, -1}}, {Topic: "no-such", Partitions: []int32{0}}, {Topic: "a b", Partitions: []int32{0}}, {Topic: "seq-9"},
		}
	})
}

func configuredScript(s *side) {
	now := s.symbols.began.UnixMilli()
	for i, c := range []struct {
		label   string
		configs []string
	}{
		{"compacted", []string{"cleanup.policy", "compact"}},
		{"the broker's time", []string{"message.timestamp.type", "LogAppendTime"}},
		{"small batches", []string{"max.message.bytes", "200"}},
		{"only new records", []string{"message.timestamp.before.max.ms", "1000"}},
		{"gzip", []string{"compression.type", "gzip"}},
		{"uncompressed", []string{"compression.type", "uncompressed"}},
		{"zstd", []string{"compression.type", "zstd", "compression.zstd.level", "1"}},
	} {
		topic := fmt.Sprint("configured-", i)
		id := s.create(topic, 1, c.configs...)
		for _, v := range []int16{3, 7, 8, s.common[0].max} {
			one := func(label string, b []byte) { s.ask(c.label+": "+label, put(v, -1, topic, id, 0, b)) }
			one("a key", batch(nil, rec{key: []byte("k"), value: []byte("v")}))
			one("no key", batch(nil, rec{key: []byte("k")}, rec{value: []byte("v")}, rec{value: []byte("w")}))
			one("large", batch(nil, rec{key: []byte("k"), value: make([]byte, 300)}))
			one("of now", batch(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = now, now }, rec{key: []byte("k"), value: []byte("v")}))
			one("far in the future", batch(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = now*2, now*2 }, rec{key: []byte("k"), value: []byte("v")}))
			one("gzip", batch(compressed(kgo.GzipCompression(), 1), rec{key: []byte("k"), value: []byte("v")}))
		}
		s.fetchAll(c.label, topic, id)
	}
}

// fetchAll compares what has come to be in partition 0, in the newest version.
func (s *side) fetchAll(label, topic string, id [16]byte) {
	s.ask(label+": the log", newest(s, func(r *kmsg.FetchRequest) {
		*r = *get(r.Version, topic, id, 0, 0)
	}))
}
