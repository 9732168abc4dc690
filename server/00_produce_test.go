package server

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// P-02: one batch above the topic's limit is 10, stores nothing, and the request's
// other partitions succeed. The topic's limit beats the broker's.
func TestProduceTooLarge(t *testing.T) {
	n := startNode(t, t.TempDir(), "message.max.bytes=100000")
	c := dial(t, n.Addr())
	c.create("small", 1, "max.message.bytes", "51200")
	c.create("large", 1, "max.message.bytes", "500000")
	c.create("default", 1)
	batch := func(size int) []byte { return newBatch(nil, strings.Repeat("x", size)) }
	resp := c.ask(produceReq(-1, "small", batch(100<<10), "large", batch(400<<10), "default", batch(110_000))).(*kmsg.ProduceResponse)
	for i, want := range []int16{10, 0, 10} {
		if got := resp.Topics[i].Partitions[0]; got.ErrorCode != want || want != 0 && got.BaseOffset != -1 {
			t.Errorf("%s: error %d at offset %d, want %d", resp.Topics[i].Topic, got.ErrorCode, got.BaseOffset, want)
		}
	}
	for topic, want := range map[string]int64{"small": 0, "large": 1, "default": 0} {
		if got := c.end(topic); got != want {
			t.Errorf("end of %s: %d, want %d", topic, got, want)
		}
	}
	if code, off := c.produce("small", batch(51200-100)); code != 0 || off != 0 {
		t.Errorf("within the limit: error %d, offset %d", code, off)
	}
}

// P-08: what Kafka refuses is refused with its code and not stored.
func TestProduceInvalidBatches(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	edit := func(f func(*kmsg.RecordBatch)) []byte { return newBatch(f, "v", "w") }
	badCRC := newBatch(nil, "v")
	badCRC[len(badCRC)-1] ^= 1
	two := append(newBatch(nil, "v"), newBatch(nil, "w")...)
	old := newBatch(nil, "v")
	old[16] = 1
	for name, tc := range map[string]struct {
		batch []byte
		want  int16
	}{
		"count above":       {edit(func(b *kmsg.RecordBatch) { b.NumRecords = 3 }), 87},
		"count below":       {edit(func(b *kmsg.RecordBatch) { b.NumRecords = 1 }), 87},
		"count 0":           {edit(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 0, -1 }), 87},
		"count -1":          {edit(func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = -1, -2 }), 87},
		"control":           {edit(func(b *kmsg.RecordBatch) { b.Attributes |= 1 << 5 }), 87},
		"negative sequence": {edit(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1, 0, -1 }), 87},
		"checksum":          {badCRC, 2},
		"two batches":       {two, 87},
		"magic 1":           {old, 87},
		"cut off":           {newBatch(nil, "v")[:40], 87},
		"nothing":           {[]byte{}, 87},
		"null":              {nil, 87},
		"future":            {edit(func(b *kmsg.RecordBatch) { b.MaxTimestamp += 10 * 3600 * 1000 }), 32},
	} {
		if code, off := c.produce("t", tc.batch); code != tc.want || off != -1 {
			t.Errorf("%s: error %d at offset %d, want %d", name, code, off, tc.want)
		}
		if end := c.end("t"); end != 0 {
			t.Fatalf("%s: stored, end is %d", name, end)
		}
	}
}

// zstd came with version 7: below it, it is refused, with the code of its own.
func TestProduceZstdNeedsVersion7(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	batch := func(codec int16) []byte {
		return newBatch(func(b *kmsg.RecordBatch) { b.Attributes |= codec }, "v")
	}
	stored := int64(0)
	for version := int16(3); version <= 9; version++ {
		for codec := range int16(5) {
			req := produceReq(-1, "t", batch(codec))
			req.Version = version
			// The records are not compressed, so that who looks at them refuses them; the codec's
			// own refusal comes first.
			want := kerr.InvalidRecord.Code
			switch {
			case codec == 4 && version < 7:
				want = kerr.UnsupportedCompressionType.Code
			case codec == 0:
				want = 0
				stored++
			}
			if got := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; got.ErrorCode != want {
				t.Errorf("codec %d by version %d: error %d, want %d", codec, version, got.ErrorCode, want)
			}
			if end := c.end("t"); end != stored {
				t.Fatalf("codec %d by version %d: end %d, want %d", codec, version, end, stored)
			}
		}
	}
}

func TestProduceErrors(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	id := c.create("t", 1)
	v13 := func(id [16]byte, partition int32) int16 {
		req := produceReq(1, "", newBatch(nil, "v"))
		req.Version = 13
		req.Topics[0].TopicID = id
		req.Topics[0].Partitions[0].Partition = partition
		return c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	}
	for what, tc := range map[string][2]int16{
		"ID":                {v13(id, 0), 0},
		"unknown ID":        {v13([16]byte{1}, 0), kerr.UnknownTopicID.Code},
		"unknown partition": {v13(id, 1), kerr.UnknownTopicOrPartition.Code},
		"partition -1":      {v13(id, -1), kerr.UnknownTopicOrPartition.Code},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%s: error %d, want %d", what, tc[0], tc[1])
		}
	}
	if code, _ := c.produce("missing", newBatch(nil, "v")); code != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("missing topic: error %d", code)
	}
	for _, acks := range []int16{2, -2, 127} {
		if code := c.ask(produceReq(acks, "t", newBatch(nil, "v"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 21 {
			t.Errorf("acks %d: error %d", acks, code)
		}
	}
	stray := newBatch(func(b *kmsg.RecordBatch) {
		b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1<<4, 1, 0, 0
	}, "v")
	tx := produceReq(-1, "t", stray)
	tx.TransactionID = kmsg.StringPtr("tx")
	served(t, n)
	if code := c.ask(tx).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.InvalidProducerIDMapping.Code {
		t.Errorf("a transaction that no coordinator knows of: error %d", code)
	}
	if code, _ := c.produce("t", stray); code != kerr.TransactionalIDAuthorizationFailed.Code {
		t.Errorf("transactional batch without a transactional ID: error %d", code)
	}
	if got := c.end("t"); got != 1 {
		t.Errorf("end %d, want 1", got)
	}
}

// acks=0 has no answer; an error closes the connection.
func TestProduceWithoutAnswer(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.send(produceReq(0, "t", newBatch(nil, "v")))
	c.ask(kmsg.NewPtrMetadataRequest()) // the next answer is the next request's
	if got := c.end("t"); got != 1 {
		t.Errorf("end %d, want 1", got)
	}
	c.send(produceReq(0, "missing", newBatch(nil, "v")))
	c.closed()
}

// Requests in flight on one connection get their offsets in the order of the wire,
// are answered in it, and share commits.
func TestProducePipelined(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	const count = 200
	first := c.corr + 1
	var wg sync.WaitGroup
	wg.Go(func() {
		for range count {
			c.send(produceReq(-1, "t", newBatch(nil, "v")))
		}
	})
	for i := range int32(count) {
		corr, b := c.receive()
		resp := kmsg.NewPtrProduceResponse()
		resp.Version = 9
		c.decode(resp, b)
		p := resp.Topics[0].Partitions[0]
		if corr != first+i || p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Fatalf("answer %d: to request %d, error %d, offset %d", i, corr-first, p.ErrorCode, p.BaseOffset)
		}
	}
	wg.Wait()
}

func TestProduceLogAppendTime(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.message.timestamp.type=LogAppendTime")
	c := dial(t, n.Addr())
	c.create("broker", 1)
	c.create("create", 1, "message.timestamp.type", "CreateTime")
	resp := c.ask(produceReq(-1, "broker", newBatch(nil, "v"), "create", newBatch(nil, "v"))).(*kmsg.ProduceResponse)
	if got := resp.Topics[0].Partitions[0].LogAppendTime; time.Since(time.UnixMilli(got)).Abs() > time.Minute {
		t.Errorf("append time %d", got)
	}
	if got := resp.Topics[1].Partitions[0].LogAppendTime; got != -1 {
		t.Errorf("append time %d where the producer's is kept", got)
	}
}
