package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestSameNameAgain deletes a topic and makes it again under its name, with a consumer
// attached all the time and a kill -9 in between (CASES A-03): nothing of the old one is in
// the new one.
func TestSameNameAgain(t *testing.T) {
	need(t)
	c := startCluster(t)
	got := make(chan string, 100)
	r := c.newClient(kgo.ConsumeTopics("again"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(100*time.Millisecond))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer r.Close()
	wg.Go(func() {
		for {
			fs := r.PollFetches(t.Context())
			if fs.IsClientClosed() || t.Context().Err() != nil {
				return
			}
			fs.EachRecord(func(r *kgo.Record) { got <- fmt.Sprintf("%s at %d", r.Value, r.Offset) })
		}
	})
	var old [16]byte
	continued := int32(0)
	for round := range 20 {
		id := makeAgain(c)
		r.PurgeTopicsFromClient("again") // it would wait for the old ID otherwise, whatever broker it asks
		r.AddConsumeTopics("again")
		leader := leaderOf(c, id)
		if round > 0 {
			wantOldIsUnknown(c, leader, old)
		}
		for _, at := range []int64{-1, -2} {
			resp, err := c.ask(leader, listOffsets("again", at))
			if err != nil {
				t.Fatal(err)
			}
			if p := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.Offset != 0 {
				t.Errorf("round %d: a new topic is at %+v", round, p)
			}
		}
		// One producer goes on where it was in the old topic, one begins.
		put(c, leader, id, 7001, continued, fmt.Sprintf("%d goes on", round))
		put(c, leader, id, 8000+int64(round), 0, fmt.Sprintf("%d begins", round))
		continued++
		for i, what := range []string{"goes on", "begins"} {
			want := fmt.Sprintf("%d %s at %d", round, what, i)
			select {
			case have := <-got:
				if have != want {
					t.Fatalf("the consumer has %q, want %q", have, want)
				}
			case <-time.After(startTime):
				t.Fatalf("the consumer has not got %q", want)
			}
		}
		if round == 9 {
			c.broker(leader).kill()
		}
		deleteTopic(c)
		if round == 9 {
			c.broker(leader).start()
			c.settled()
		}
		old = id
	}
}

// makeAgain makes the topic through some broker, and returns its ID.
func makeAgain(c *cluster) [16]byte {
	c.t.Helper()
	rs, err := c.admin().CreateTopic(c.t.Context(), 1, 1, nil, "again")
	if err != nil {
		c.t.Fatal(err)
	}
	return rs.ID
}

func deleteTopic(c *cluster) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), startTime)
	defer cancel()
	rs, err := c.admin().DeleteTopics(ctx, "again")
	if err == nil {
		err = rs.Error()
	}
	if err != nil {
		c.t.Fatalf("delete: %v", err)
	}
}

// leaderOf waits until the leader of a topic's partition 0 serves it.
func leaderOf(c *cluster, id [16]byte) (leader int32) {
	c.t.Helper()
	c.await("the new topic is served", func() bool {
		for as := int32(1); as <= 3; as++ {
			if !c.isUp(as) {
				continue
			}
			m := c.metadata(as, "again")
			if m == nil || m.Topics[0].TopicID != id || m.Topics[0].Partitions[0].Leader != as || c.end(as, "again") < 0 {
				continue
			}
			leader = as
			return true
		}
		return false
	})
	return leader
}

// wantOldIsUnknown asks for the deleted topic by its ID, which names nothing any more.
func wantOldIsUnknown(c *cluster, at int32, old [16]byte) {
	c.t.Helper()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.ReplicaID, fetch.MaxBytes, fetch.SessionEpoch = -1, 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.PartitionMaxBytes = -1, 1<<20
	fetch.Topics = []kmsg.FetchRequestTopic{{TopicID: old, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	resp, err := c.ask(at, fetch)
	if err != nil {
		c.t.Fatal(err)
	}
	code(c.t, "fetch by the old ID", resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
	code(c.t, "produce by the old ID", produced(c, at, old, batch(9, 0, "v")).ErrorCode, kerr.UnknownTopicID)
}

// put writes one record as an idempotent producer.
func put(c *cluster, at int32, id [16]byte, producer int64, sequence int32, value string) {
	c.t.Helper()
	p := produced(c, at, id, batch(producer, sequence, value))
	code(c.t, fmt.Sprintf("produce %q with sequence %d", value, sequence), p.ErrorCode, nil)
}

// produced is what one broker answers to a batch for partition 0.
func produced(c *cluster, at int32, id [16]byte, batch []byte) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = batch
	req.Topics = []kmsg.ProduceRequestTopic{{TopicID: id, Topic: "again", Partitions: []kmsg.ProduceRequestTopicPartition{p}}}
	resp, err := c.ask(at, req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
}

// batch is one record in a batch of a producer.
func batch(producer int64, sequence int32, value string) []byte {
	r := kmsg.NewRecord()
	r.Value = []byte(value)
	r.Length = int32(len(r.AppendTo(nil)) - 1) // less than 64: one byte
	b := kmsg.NewRecordBatch()
	b.Magic, b.NumRecords, b.PartitionLeaderEpoch = 2, 1, -1
	b.FirstTimestamp = time.Now().UnixMilli()
	b.MaxTimestamp = b.FirstTimestamp
	b.ProducerID, b.FirstSequence = producer, sequence
	b.Records = r.AppendTo(nil)
	raw := b.AppendTo(nil)
	const length, checksum, checked = 8, 17, 21
	binary.BigEndian.PutUint32(raw[length:], uint32(len(raw)-length-4))
	binary.BigEndian.PutUint32(raw[checksum:], crc32.Checksum(raw[checked:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
