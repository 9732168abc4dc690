package server

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func baseOffset(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch)) }

// F-01: a fetch returns the batch that contains the offset, whole; at the end,
// nothing and no error.
func TestFetchInsideBatch(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.segment.bytes=1048576")
	c := dial(t, n.Addr())
	c.create("t", 1)
	pad := strings.Repeat("x", 500<<10) // two batches a segment, so that one is last and one first of each
	for i := range 6 {
		if code, _ := c.produce("t", newBatch(nil, pad, "b")); code != 0 {
			t.Fatalf("batch %d: error %d", i, code)
		}
	}
	for offset := range int64(12) {
		got := c.fetch("t", offset)
		if got.ErrorCode != 0 || len(got.RecordBatches) == 0 || baseOffset(got.RecordBatches) != offset/2*2 || got.HighWatermark != 12 {
			t.Errorf("fetch at %d: error %d, %d bytes, high watermark %d", offset, got.ErrorCode, len(got.RecordBatches), got.HighWatermark)
		}
	}
	if got := c.fetch("t", 12); got.ErrorCode != 0 || got.RecordBatches == nil || len(got.RecordBatches) != 0 {
		t.Errorf("fetch at the end: error %d, %v", got.ErrorCode, got.RecordBatches)
	}
	for _, offset := range []int64{13, -1, 1 << 60} {
		if got := c.fetch("t", offset); got.ErrorCode != 1 {
			t.Errorf("fetch at %d: error %d, want 1", offset, got.ErrorCode)
		}
	}
}

// F-06: what was acknowledged can be fetched from then on, also in the relaxed mode.
func TestFetchWhatWasAcknowledged(t *testing.T) {
	for _, flush := range []string{"1", "1000000"} {
		n := startNode(t, t.TempDir(), "log.flush.interval.messages="+flush)
		c, r := dial(t, n.Addr()), dial(t, n.Addr())
		c.create("t", 1)
		for i := range int64(30) {
			code, off := c.produce("t", newBatch(nil, "v"))
			got := r.fetch("t", i)
			if code != 0 || off != i || got.ErrorCode != 0 || len(got.RecordBatches) == 0 || got.HighWatermark < i+1 {
				t.Fatalf("flush %s, record %d: error %d at %d; fetched error %d, %d bytes", flush, i, code, off, got.ErrorCode, len(got.RecordBatches))
			}
		}
	}
}

// A long poll over many partitions is woken by the first record, and costs no
// longer than it asked for without one.
func TestFetchLongPoll(t *testing.T) {
	n := startNode(t, t.TempDir())
	c, r := dial(t, n.Addr()), dial(t, n.Addr())
	c.create("t", 8)
	many := fetchReq("t", 0, 10*time.Minute)
	for i := range int32(7) {
		p := many.Topics[0].Partitions[0]
		p.Partition = i + 1
		many.Topics[0].Partitions = append(many.Topics[0].Partitions, p)
	}
	r.send(many)
	time.Sleep(50 * time.Millisecond)
	if code, _ := c.produce("t", newBatch(nil, "v")); code != 0 {
		t.Fatal(code)
	}
	_, b := r.receive()
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = 12
	r.decode(resp, b)
	if len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Error("answered without the record")
	}
	began := time.Now()
	got := r.ask(fetchReq("t", 1, 100*time.Millisecond)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if d := time.Since(began); d < 90*time.Millisecond || d > patience/2 || got.ErrorCode != 0 {
		t.Errorf("an empty poll of 100 ms took %v, error %d", d, got.ErrorCode)
	}
	atLeast := fetchReq("t", 0, 100*time.Millisecond)
	atLeast.MinBytes = 1 << 20
	began = time.Now()
	got = r.ask(atLeast).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if d := time.Since(began); d < 90*time.Millisecond || len(got.RecordBatches) == 0 {
		t.Errorf("less than min bytes was answered after %v with %d bytes", d, len(got.RecordBatches))
	}
}

// The first batch is sent whatever its size (KIP-74), further ones within the limits.
func TestFetchLimits(t *testing.T) {
	n := startNode(t, t.TempDir(), "fetch.max.bytes=40000")
	c := dial(t, n.Addr())
	c.create("a", 1)
	c.create("b", 1)
	for range 10 {
		for _, topic := range []string{"a", "b"} {
			if code, _ := c.produce(topic, newBatch(nil, strings.Repeat("x", 10_000))); code != 0 {
				t.Fatal(code)
			}
		}
	}
	sizes := func(max, partitionMax int32) (a, b int) {
		req := fetchReq("a", 0, 0)
		req.Topics = append(req.Topics, fetchReq("b", 0, 0).Topics...)
		req.MaxBytes = max
		for i := range req.Topics {
			req.Topics[i].Partitions[0].PartitionMaxBytes = partitionMax
		}
		resp := c.ask(req).(*kmsg.FetchResponse)
		return len(resp.Topics[0].Partitions[0].RecordBatches) / 10_000, len(resp.Topics[1].Partitions[0].RecordBatches) / 10_000
	}
	for _, tc := range []struct {
		max, partition int32
		a, b           int
	}{
		{1, 1, 1, 0}, {0, 0, 1, 0}, {1 << 30, 25_000, 2, 1}, {1 << 30, 1, 1, 0}, {1 << 30, 1 << 30, 3, 0}, {25_000, 1 << 30, 2, 0},
	} {
		if a, b := sizes(tc.max, tc.partition); a != tc.a || b != tc.b {
			t.Errorf("max %d, of a partition %d: %d and %d batches, want %d and %d", tc.max, tc.partition, a, b, tc.a, tc.b)
		}
	}
}

func TestFetchErrors(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	id := c.create("t", 1)
	for what, tc := range map[string]struct {
		edit func(*kmsg.FetchRequest)
		top  int16
		code int16
	}{
		"by name":           {func(r *kmsg.FetchRequest) {}, 0, 0},
		"by ID":             {func(r *kmsg.FetchRequest) { r.Version, r.Topics[0].TopicID = 18, id }, 0, 0},
		"unknown name":      {func(r *kmsg.FetchRequest) { r.Topics[0].Topic = "u" }, 0, 3},
		"unknown ID":        {func(r *kmsg.FetchRequest) { r.Version, r.Topics[0].TopicID = 13, [16]byte{9} }, 0, 100},
		"unknown partition": {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].Partition = 7 }, 0, 3},
		"older epoch":       {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 0 }, 0, 74},
		"newer epoch":       {func(r *kmsg.FetchRequest) { r.Topics[0].Partitions[0].CurrentLeaderEpoch = 99 }, 0, 75},
		"unknown session":   {func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 12345, 1 }, 70, 0},
		"new session":       {func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 0, 0 }, 0, 0},
		"ended session":     {func(r *kmsg.FetchRequest) { r.SessionID, r.SessionEpoch = 7, -1 }, 0, 0},
	} {
		req := fetchReq("t", 0, 0)
		tc.edit(req)
		resp := c.ask(req).(*kmsg.FetchResponse)
		if resp.ErrorCode != tc.top || (resp.SessionID != 0) != (what == "new session") {
			t.Errorf("%s: error %d, session %d", what, resp.ErrorCode, resp.SessionID)
			continue
		}
		if tc.top == 0 && resp.Topics[0].Partitions[0].ErrorCode != tc.code {
			t.Errorf("%s: error %d, want %d", what, resp.Topics[0].Partitions[0].ErrorCode, tc.code)
		}
	}
}
