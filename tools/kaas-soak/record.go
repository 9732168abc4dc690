package main

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	logTopic  = "soak-log"
	keysTopic = "soak-keys"

	valueSize      = 1000
	keysOfEach     = 2000 // keys of a partition
	retentionBytes = 16 << 20
	segmentBytes   = 1 << 20
	// mostOverhead bounds what a record takes in the log beyond its value, alone in its batch.
	mostOverhead = 80
	// tombstoneKeptMs is how long a reader may count on meeting a tombstone.
	tombstoneKeptMs = 20_000
)

var topicConfigs = map[string]map[string]string{
	logTopic:  {"cleanup.policy": "delete", "retention.bytes": strconv.Itoa(retentionBytes), "retention.ms": "-1"},
	keysTopic: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", "delete.retention.ms": strconv.Itoa(tombstoneKeptMs)},
}

// commonConfigs are of both topics.
var commonConfigs = map[string]string{"segment.bytes": strconv.Itoa(segmentBytes), "file.delete.delay.ms": "1000"}

// recordAt is the record that is written at an offset: its content follows from
// its place alone.
func recordAt(topic string, partition int32, offset int64) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition}
	if topic == keysTopic {
		r.Key = strconv.AppendInt(nil, keyAt(offset), 10)
	}
	if tombstoneAt(topic, offset) {
		return r
	}
	r.Value = bytes.Repeat([]byte{byte('a' + offset%26)}, valueSize)
	binary.BigEndian.PutUint64(r.Value, uint64(offset))
	binary.BigEndian.PutUint64(r.Value[valueSize-8:], ^uint64(offset))
	r.Value[8] = byte(partition)
	return r
}

// keyAt is the key at an offset of the compacted topic: some keys come often.
func keyAt(offset int64) int64 {
	h := uint64(offset) * 0x9e3779b97f4a7c15
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	if h&3 != 0 {
		return int64((h >> 8) % (keysOfEach / 20))
	}
	return int64((h >> 8) % keysOfEach)
}

func tombstoneAt(topic string, offset int64) bool { return topic == keysTopic && offset%23 == 7 }

// asWritten says whether a record is what was written at its offset.
func asWritten(r *kgo.Record) bool {
	want := recordAt(r.Topic, r.Partition, r.Offset)
	return bytes.Equal(r.Key, want.Key) && bytes.Equal(r.Value, want.Value) && (r.Value == nil) == (want.Value == nil)
}
