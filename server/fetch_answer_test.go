package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// The encoder writes byte for byte what kmsg does, in every version.
func TestFetchEncoderAgainstKmsg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newFetchAnswer(rapid.Int16Range(4, 18).Draw(t, "version"), nil)
		a.ThrottleMillis, a.ErrorCode, a.SessionID = rapid.Int32().Draw(t, "throttle"), rapid.Int16().Draw(t, "error"), rapid.Int32().Draw(t, "session")
		for range rapid.IntRange(0, 3).Draw(t, "topics") {
			rt := kmsg.NewFetchResponseTopic()
			rt.Topic = rapid.StringN(0, 300, -1).Draw(t, "topic")
			rt.TopicID[3] = rapid.Byte().Draw(t, "id")
			for range rapid.IntRange(0, 3).Draw(t, "partitions") {
				p := kmsg.NewFetchResponseTopicPartition()
				p.Partition, p.ErrorCode, p.HighWatermark = rapid.Int32().Draw(t, "partition"), rapid.Int16().Draw(t, "code"), rapid.Int64().Draw(t, "high")
				p.LastStableOffset, p.LogStartOffset = rapid.Int64().Draw(t, "stable"), rapid.Int64().Draw(t, "start")
				if rapid.Bool().Draw(t, "leader") {
					p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = rapid.Int32().Draw(t, "leader id"), rapid.Int32().Draw(t, "leader epoch")
				}
				if n := rapid.IntRange(-1, 2).Draw(t, "aborted"); n >= 0 {
					p.AbortedTransactions = make([]kmsg.FetchResponseTopicPartitionAbortedTransaction, n)
					for i := range p.AbortedTransactions {
						p.AbortedTransactions[i].ProducerID, p.AbortedTransactions[i].FirstOffset = rapid.Int64().Draw(t, "producer"), rapid.Int64().Draw(t, "first")
					}
				}
				if n := rapid.SampledFrom([]int{-1, 0, 1, 100, inlined, inlined + 1, 300_000}).Draw(t, "records"); n >= 0 {
					p.RecordBatches = bytes.Repeat([]byte{'r'}, n)
				}
				rt.Partitions = append(rt.Partitions, p)
			}
			a.Topics = append(a.Topics, rt)
		}
		for range rapid.IntRange(0, 2).Draw(t, "brokers") {
			b := kmsg.NewFetchResponseBroker()
			b.NodeID, b.Port, b.Host = rapid.Int32().Draw(t, "node"), rapid.Int32().Draw(t, "port"), rapid.String().Draw(t, "host")
			if rapid.Bool().Draw(t, "rack") {
				rack := rapid.String().Draw(t, "rack name")
				b.Rack = &rack
			}
			a.Brokers = append(a.Brokers, b)
		}
		head, parts := a.encode([]byte("head"))
		var got []byte
		at := 0
		for i := range parts {
			got = append(append(got, head[at:parts[i].at]...), parts[i].mem...)
			at = parts[i].at
		}
		got = append(got, head[at:]...)
		if want := a.AppendTo([]byte("head")); !bytes.Equal(got, want) {
			t.Fatalf("version %d: %d bytes, want %d", a.Version, len(got), len(want))
		}
	})
}

// fill produces count batches of about size bytes each.
func (c *client) fill(topic string, count, size int) {
	c.t.Helper()
	for range count {
		if code, _ := c.produce(topic, newBatch(nil, strings.Repeat("x", size))); code != 0 {
			c.t.Fatalf("produce: error %d", code)
		}
	}
}

func largeFetch(topics ...string) *kmsg.FetchRequest {
	req := fetchReq(topics[0], 0, 0)
	for _, t := range topics[1:] {
		req.Topics = append(req.Topics, fetchReq(t, 0, 0).Topics...)
	}
	for i := range req.Topics {
		req.Topics[i].Partitions[0].PartitionMaxBytes = 64 << 20
	}
	return req
}

// Records that are sent from their files come as they were written, in every version,
// beside small ones and errors, and several answers after one another.
func TestFetchFromFiles(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	ids := map[string][16]byte{}
	for _, topic := range []string{"large", "small", "larger"} {
		ids[topic] = c.create(topic, 1)
	}
	c.fill("large", 3, 200_000)
	c.fill("small", 1, 10)
	c.fill("larger", 9, 400_000)
	for version := fetchAPI.min; version <= fetchAPI.max; version++ {
		req := largeFetch("large", "none", "small", "larger")
		req.Version = version
		for i := range req.Topics {
			req.Topics[i].TopicID = ids[req.Topics[i].Topic]
		}
		for range 2 {
			c.send(req)
		}
		for range 2 {
			_, b := c.receive()
			resp := kmsg.NewPtrFetchResponse()
			resp.Version = version
			c.decode(resp, b)
			for i, want := range []struct{ batches, size int }{{3, 200_000}, {}, {1, 10}, {9, 400_000}} {
				p := resp.Topics[i].Partitions[0]
				if i == 1 {
					if p.ErrorCode != 3 && p.ErrorCode != 100 {
						t.Errorf("v%d: error %d of no topic", version, p.ErrorCode)
					}
					continue
				}
				if got := checkBatches(t, p.RecordBatches); got != want.batches || len(p.RecordBatches) < want.batches*want.size {
					t.Errorf("v%d: %d batches, %d bytes of %+v", version, got, len(p.RecordBatches), want)
				}
			}
		}
	}
}

func checkBatches(t *testing.T, b []byte) (n int) {
	t.Helper()
	for next := int64(0); len(b) > 0; n++ {
		var rb kmsg.RecordBatch
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if size > len(b) || rb.ReadFrom(b[:size]) != nil || rb.FirstOffset != next || uint32(rb.CRC) != crc32.Checksum(b[21:size], crc32.MakeTable(crc32.Castagnoli)) {
			t.Fatalf("batch %d: %d of %d bytes, offset %d", n, size, len(b), rb.FirstOffset)
		}
		b, next = b[size:], next+int64(rb.NumRecords)
	}
	return n
}

// A consumer that does not read its answer costs no memory for it, holds up neither
// others nor the partition, and is let go of when the broker stops.
func TestFetchSlowReader(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.fill("t", 50, 1_000_000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const slow = 20
	for range slow {
		dial(t, n.Addr()).send(largeFetch("t"))
	}
	time.Sleep(300 * time.Millisecond)
	runtime.GC()
	runtime.ReadMemStats(&after)
	grown := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d unread answers of 50 MB hold %d bytes", slow, grown)
	if grown > slow<<20 {
		t.Errorf("%d unread answers of 50 MB hold %d bytes", slow, grown)
	}
	c.fill("t", 3, 1000)
	if got := c.ask(largeFetch("t")).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(got.RecordBatches) < 50_000_000 {
		t.Errorf("another consumer gets %d bytes", len(got.RecordBatches))
	}
	for _, topic := range n.broker.View().Topics() {
		p, err := n.broker.Partition(topic.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := p.Relinquish(ctx); err != nil {
			t.Errorf("the partition does not end: %v", err)
		}
	}
}

// A file that is shorter than it was closes the connection: the client is never given
// other bytes. From then on it is told an error.
func TestFetchFromShortenedFile(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.create("healthy", 1)
	c.fill("t", 8, 500_000)
	c.fill("healthy", 1, 10)
	logs, err := filepath.Glob(filepath.Join(dir, "topics", "*", "0", "*.log"))
	if err != nil || len(logs) != 2 {
		t.Fatal(logs, err)
	}
	for _, l := range logs {
		if fi, err := os.Stat(l); err != nil || fi.Size() < 1_000_000 {
			continue
		}
		if err := os.Truncate(l, 1_000_000); err != nil {
			t.Fatal(err)
		}
	}
	r := dial(t, n.Addr())
	r.send(largeFetch("healthy", "t"))
	if b, err := io.ReadAll(r.nc); err != nil || len(b) > 1_100_000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	resp := dial(t, n.Addr()).ask(largeFetch("healthy", "t")).(*kmsg.FetchResponse)
	if p := resp.Topics[1].Partitions[0]; p.ErrorCode != 56 || len(p.RecordBatches) != 0 {
		t.Errorf("the second time: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
	if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("the healthy one: error %d, %d bytes", p.ErrorCode, len(p.RecordBatches))
	}
}
