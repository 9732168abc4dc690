package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *client) deleteRecords(version int16, topic string, offset int64) (code int16, low int64) {
	c.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = version, 10_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Offset = offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got := c.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	return got.ErrorCode, got.LowWatermark
}

func TestDeleteRecords(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	c.create("t", 1)
	c.create("compacted", 1, "cleanup.policy", "compact")
	for range 3 {
		c.produce("t", newBatch(nil, "a", "b"))
	}
	for i, tc := range []struct {
		topic  string
		offset int64
		code   int16
		low    int64
	}{
		{"t", 0, 0, 0}, {"t", 3, 0, 3}, {"t", 2, 0, 3}, {"t", 7, 1, -1}, {"t", -2, 1, -1}, {"none", 0, 3, -1}, {"compacted", 0, 44, -1}, {"t", 6, 0, 6}, {"t", -1, 0, 6},
	} {
		if code, low := c.deleteRecords(int16(i%3), tc.topic, tc.offset); code != tc.code || low != tc.low {
			t.Errorf("%s before %d: error %d, low watermark %d, want %d, %d", tc.topic, tc.offset, code, low, tc.code, tc.low)
		}
	}
}

// below the log start is an error of that partition alone.
func TestFetchAroundLogStart(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("cut", 1)
	c.create("sound", 1)
	for range 4 {
		c.produce("cut", newBatch(nil, "a", "b"))
		c.produce("sound", newBatch(nil, "a", "b"))
	}
	c.deleteRecords(2, "cut", 3)
	for _, tc := range []struct {
		offset int64
		code   int16
		empty  bool
	}{{2, 1, true}, {3, 0, false}, {8, 0, true}, {9, 1, true}} {
		req := fetchReq("cut", tc.offset, 0)
		req.Topics = append(req.Topics, fetchReq("sound", 0, 0).Topics...)
		resp := c.ask(req).(*kmsg.FetchResponse)
		cut, sound := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]
		if cut.ErrorCode != tc.code || (len(cut.RecordBatches) == 0) != tc.empty {
			t.Errorf("fetch at %d: error %d, %d bytes", tc.offset, cut.ErrorCode, len(cut.RecordBatches))
		}
		if tc.code == 0 && cut.LogStartOffset != 3 {
			t.Errorf("fetch at %d: log start %d, want 3", tc.offset, cut.LogStartOffset)
		}
		if sound.ErrorCode != 0 || len(sound.RecordBatches) == 0 {
			t.Errorf("fetch at %d of another: error %d, %d bytes of the sound one", tc.offset, sound.ErrorCode, len(sound.RecordBatches))
		}
	}
}

// P-08: a keyless record on a compacted topic is refused, and named.
func TestProduceKeyless(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 1, "cleanup.policy", "compact")
	got := c.ask(produceReq(-1, "t", newBatch(nil, "no key"))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 87 || len(got.ErrorRecords) != 1 || got.ErrorRecords[0].RelativeOffset != 0 || got.ErrorRecords[0].ErrorMessage == nil {
		t.Errorf("error %d, records %+v", got.ErrorCode, got.ErrorRecords)
	}
	if c.end("t") != 0 {
		t.Error("something was stored")
	}
}

// Retention and compaction act in a running broker; a consumer from the start gets
// through, and sees the newest of every key.
func TestCleanerRuns(t *testing.T) {
	n := startNode(t, t.TempDir(), "log.cleaner.backoff.ms=20", "log.retention.check.interval.ms=20", "log.segment.delete.delay.ms=0")
	c := dial(t, n.Addr())
	c.create("old", 1, "segment.ms", "50", "retention.ms", "300")
	c.create("keys", 1, "segment.ms", "50", "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0", "compression.type", "zstd")
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	const rounds = 12
	for i := range rounds {
		var recs []*kgo.Record
		for k := range 5 {
			recs = append(recs, &kgo.Record{Topic: "keys", Key: fmt.Appendf(nil, "k%d", k), Value: fmt.Appendf(nil, "%d", i)})
		}
		recs = append(recs, &kgo.Record{Topic: "old", Value: []byte("v")})
		if err := cl.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(60 * time.Millisecond)
	}
	deadline := time.Now().Add(patience)
	for n.broker.CleanerStats().Removed < 5*(rounds-2) || c.fetch("old", 0).ErrorCode != 1 {
		if time.Now().After(deadline) {
			t.Fatalf("the cleaner did too little: %+v; fetch of what is old: error %d", n.broker.CleanerStats(), c.fetch("old", 0).ErrorCode)
		}
		time.Sleep(20 * time.Millisecond)
	}
	rd, err := kgo.NewClient(kgo.SeedBrokers(n.Addr()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"keys": {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	newest, seen, last := map[string]string{}, 0, int64(-1)
	for last < 5*rounds-1 {
		fs := rd.PollFetches(t.Context())
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			newest[string(r.Key)], last = string(r.Value), r.Offset
			seen++
		})
	}
	for k := range 5 {
		if got := newest[fmt.Sprintf("k%d", k)]; got != fmt.Sprint(rounds-1) {
			t.Errorf("k%d is %q", k, got)
		}
	}
	if seen > 20 {
		t.Errorf("%d records of %d are left", seen, 5*rounds)
	}
	for off := range int64(5 * rounds) {
		if got := c.fetch("keys", off); got.ErrorCode != 0 || len(got.RecordBatches) == 0 {
			t.Errorf("fetch at %d: error %d, %d bytes", off, got.ErrorCode, len(got.RecordBatches))
		}
	}
}
