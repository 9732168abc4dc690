package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func ptr[T any](v T) *T { return &v }

// forged is a topic ID that no broker has made.
func forged(n byte) (id [16]byte) {
	id[0], id[15] = foreignID, n
	return id
}

// newTopic is a topic as CreateTopics takes it, with configurations, name and value in turn.
func newTopic(name string, partitions int32, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

// create makes a topic, waits until it can be used, and returns its ID. Nothing of that is
// compared.
func (s *side) create(name string, partitions int32, configs ...string) [16]byte {
	s.quiet(newest(s, func(r *kmsg.CreateTopicsRequest) {
		r.TimeoutMillis = 30_000
		r.Topics = []kmsg.CreateTopicsRequestTopic{newTopic(name, partitions, configs...)}
	}))
	return s.awaitTopic(name, partitions)
}

// metadata asks for topics without making them.
func (s *side) metadata(names ...string) *kmsg.MetadataResponse {
	req := newest(s, func(r *kmsg.MetadataRequest) {
		r.Topics = metadataTopics(names...)
	})
	resp, _ := s.quiet(req).(*kmsg.MetadataResponse)
	return resp
}

func metadataTopics(names ...string) []kmsg.MetadataRequestTopic {
	out := []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		out = append(out, t)
	}
	return out
}

// awaitTopic waits until all partitions of a topic have a leader that serves them.
func (s *side) awaitTopic(name string, partitions int32) (id [16]byte) {
	s.until("topic "+name, func() bool {
		resp := s.metadata(name)
		if resp == nil || resp.Topics[0].ErrorCode != 0 || len(resp.Topics[0].Partitions) != int(partitions) {
			return false
		}
		id = resp.Topics[0].TopicID
		for _, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != 0 || !s.serves(name, p.Partition) {
				return false
			}
		}
		return true
	})
	return id
}

func (s *side) serves(topic string, partition int32) bool {
	resp, ok := s.quiet(request(5, func(r *kmsg.ListOffsetsRequest) {
		r.ReplicaID = -1
		r.Topics = offsetsOf(topic, partition, -1)
	})).(*kmsg.ListOffsetsResponse)
	return ok && resp.Topics[0].Partitions[0].ErrorCode == 0
}

// awaitGone waits until a topic is not there any more.
func (s *side) awaitGone(name string) {
	s.until("the end of topic "+name, func() bool {
		resp := s.metadata(name)
		return resp != nil && resp.Topics[0].ErrorCode != 0
	})
}

func offsetsOf(topic string, partition int32, timestamp int64) []kmsg.ListOffsetsRequestTopic {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, -1
	p.MaxNumOffsets = 1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{p}
	return []kmsg.ListOffsetsRequestTopic{t}
}

// firstTime is the timestamp of the first record of a batch, unless it is told otherwise.
const firstTime = 1_600_000_000_000

// rec is a record.
type rec struct {
	key, value []byte // nil is null
	time       int64  // after the batch's
	headers    []kmsg.Header
}

func values(vs ...string) (out []rec) {
	for _, v := range vs {
		out = append(out, rec{value: []byte(v)})
	}
	return out
}

// batch encodes a batch of records. edit changes it before its length and checksum are set.
func batch(edit func(*kmsg.RecordBatch), records ...rec) []byte {
	var body []byte
	last := int64(0)
	for i, r := range records {
		k := kmsg.NewRecord()
		k.OffsetDelta, k.Key, k.Value, k.TimestampDelta64, k.Headers = int32(i), r.key, r.value, r.time, r.headers
		body = append(body, sized(k)...)
		last = max(last, r.time)
	}
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords, b.LastOffsetDelta, b.PartitionLeaderEpoch = 2, int32(len(records)), int32(len(records)-1), -1
	b.FirstTimestamp, b.MaxTimestamp = firstTime, firstTime+last
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	b.Records = body
	if edit != nil {
		edit(&b)
	}
	return seal(b.AppendTo(nil))
}

// sized is a record with its length, a varint before what it counts.
func sized(k kmsg.Record) []byte {
	for k.Length = 1; ; {
		b := k.AppendTo(nil)
		n := int32(len(b) - len(binary.AppendVarint(nil, int64(k.Length))))
		if n == k.Length {
			return b
		}
		k.Length = n
	}
}

// seal sets the length and the checksum of an encoded batch.
func seal(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// compressed has the records of a batch compressed.
func compressed(codec kgo.CompressionCodec, kind int16) func(*kmsg.RecordBatch) {
	return func(b *kmsg.RecordBatch) {
		c, err := kgo.DefaultCompressor(codec)
		if err != nil {
			panic(err)
		}
		out, _ := c.Compress(new(bytes.Buffer), b.Records)
		b.Records, b.Attributes = bytes.Clone(out), kind
	}
}
