package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// watch asks every broker every 5 ms how far partition 0 of a topic is, whatever happens to
// the brokers, and notes what goes back (CASES Z-03): of a value that was told before a
// request was sent, its answer may not tell a lower one.
type watch struct {
	c     *cluster
	topic string
	wg    sync.WaitGroup
	stop  context.CancelFunc
	mu    struct {
		sync.Mutex
		told    map[string]int64 // the highest value of its kind
		answers int
		codes   map[string]int // how often something was refused
		wrong   []string
	}
}

func startWatch(c *cluster, topic string) *watch {
	w := &watch{c: c, topic: topic}
	w.mu.told, w.mu.codes = map[string]int64{}, map[string]int{}
	ctx, cancel := context.WithCancel(c.t.Context())
	w.stop = cancel
	for id := int32(1); id <= 3; id++ {
		for _, look := range []func(context.Context, int32){w.metadata, w.newest, w.oldest, w.fetch, w.epochEnd} {
			w.wg.Go(func() {
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for ctx.Err() == nil {
					look(ctx, id)
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
			})
		}
	}
	return w
}

// ended stops asking and fails the test if anything has gone back.
func (w *watch) ended(t *testing.T, epochs int64) {
	t.Helper()
	w.stop()
	w.wg.Wait()
	t.Logf("%d answers, up to %v; refused: %v", w.mu.answers, w.mu.told, w.mu.codes)
	for i, wrong := range w.mu.wrong {
		t.Errorf("went back: %s", wrong)
		if i == 10 {
			t.Fatalf("and %d more", len(w.mu.wrong)-i)
		}
	}
	if w.mu.answers < 1000 || w.mu.told["epoch"] < epochs || w.mu.told["start"] == 0 {
		t.Errorf("too little has happened: want 1000 answers, epoch %d and a log start above 0", epochs)
	}
}

func (w *watch) ask(ctx context.Context, id int32, req kmsg.Request) kmsg.Response {
	ctx, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	resp, err := w.c.asked[id-1].SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return nil
	}
	return resp
}

// floor is the highest value of a kind so far, to be taken before a request.
func (w *watch) floor(kind string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.told[kind]
}

func (w *watch) saw(id int32, what, kind string, floor, got int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.answers++
	if got < floor {
		w.mu.wrong = append(w.mu.wrong, fmt.Sprintf("broker %d tells %s %d, %d was told before it was asked", id, what, got, floor))
	}
	w.mu.told[kind] = max(w.mu.told[kind], got)
}

// refused counts an answer without a value. A broker that does not lead, or not yet, may
// say so; that an offset is out of range, or the topic unknown, nobody may say.
func (w *watch) refused(id int32, what string, code int16) bool {
	if code == 0 {
		return false
	}
	err := kerr.ErrorForCode(code)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.codes[what+" "+err.Error()]++
	switch code {
	case kerr.NotLeaderForPartition.Code, kerr.LeaderNotAvailable.Code, kerr.OffsetNotAvailable.Code, kerr.FencedLeaderEpoch.Code, kerr.UnknownLeaderEpoch.Code:
	default:
		w.mu.wrong = append(w.mu.wrong, fmt.Sprintf("broker %d answers %s with %v", id, what, err))
	}
	return true
}

// metadata may lag behind from broker to broker, but each goes only forward.
func (w *watch) metadata(ctx context.Context, id int32) {
	kind := fmt.Sprintf("epoch at %d", id)
	floor := w.floor(kind)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &w.topic}}
	resp, ok := w.ask(ctx, id, req).(*kmsg.MetadataResponse)
	if !ok || w.refused(id, "Metadata", resp.Topics[0].ErrorCode) || w.refused(id, "Metadata", resp.Topics[0].Partitions[0].ErrorCode) {
		return
	}
	w.saw(id, "in Metadata the leader epoch", kind, floor, int64(resp.Topics[0].Partitions[0].LeaderEpoch))
}

func (w *watch) newest(ctx context.Context, id int32) {
	w.list(ctx, id, -1, "end")
}

func (w *watch) oldest(ctx context.Context, id int32) {
	w.list(ctx, id, -2, "start")
}

func (w *watch) list(ctx context.Context, id int32, timestamp int64, kind string) {
	floor, epoch := w.floor(kind), w.floor("epoch")
	resp, ok := w.ask(ctx, id, listOffsets(w.topic, timestamp)).(*kmsg.ListOffsetsResponse)
	if !ok {
		return
	}
	p := resp.Topics[0].Partitions[0]
	if w.refused(id, "ListOffsets", p.ErrorCode) {
		return
	}
	w.saw(id, "in ListOffsets the "+kind, kind, floor, p.Offset)
	if timestamp == -1 {
		w.saw(id, "in ListOffsets the leader epoch", "epoch", epoch, int64(p.LeaderEpoch))
	}
}

// fetch asks at the highest end that was told: it exists, whoever leads.
func (w *watch) fetch(ctx context.Context, id int32) {
	end, start := w.floor("end"), w.floor("start")
	req := kmsg.NewPtrFetchRequest()
	req.Version = 12 // by name
	req.ReplicaID, req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = -1, 0, 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = end, 1, -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: w.topic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	resp, ok := w.ask(ctx, id, &fixed{req}).(*kmsg.FetchResponse)
	if !ok || len(resp.Topics) == 0 {
		return
	}
	got := resp.Topics[0].Partitions[0]
	if w.refused(id, "Fetch", got.ErrorCode) {
		return
	}
	w.saw(id, "in Fetch the high watermark", "end", end, got.HighWatermark)
	w.saw(id, "in Fetch the log start", "start", start, got.LogStartOffset)
}

// fixed is a Fetch of a version that names topics.
type fixed struct{ *kmsg.FetchRequest }

func (*fixed) MaxVersion() int16 { return 12 }

// epochEnd asks where the newest known epoch ends; of each epoch that goes only forward.
func (w *watch) epochEnd(ctx context.Context, id int32) {
	epoch := int32(w.floor("epoch"))
	kind := fmt.Sprintf("end of epoch %d", epoch)
	floor := w.floor(kind)
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.CurrentLeaderEpoch, p.LeaderEpoch = -1, epoch
	req.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: w.topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{p}}}
	resp, ok := w.ask(ctx, id, req).(*kmsg.OffsetForLeaderEpochResponse)
	if !ok {
		return
	}
	got := resp.Topics[0].Partitions[0]
	if w.refused(id, "OffsetForLeaderEpoch", got.ErrorCode) || got.LeaderEpoch != epoch {
		return
	}
	w.saw(id, "in OffsetForLeaderEpoch the "+kind, kind, floor, got.EndOffset)
}

// A watch that sees nothing go back proves nothing unless it would.
func TestWatchNotices(t *testing.T) {
	w := &watch{}
	w.mu.told, w.mu.codes = map[string]int64{}, map[string]int{}
	w.saw(1, "the end", "end", w.floor("end"), 7)
	before := w.floor("end")
	w.saw(2, "the end", "end", before, 9)
	w.saw(3, "the end", "end", before, 7) // asked before 9 was told
	if len(w.mu.wrong) != 0 {
		t.Errorf("nothing went back: %v", w.mu.wrong)
	}
	w.saw(1, "the end", "end", w.floor("end"), 8)
	if w.refused(2, "Fetch", kerr.NotLeaderForPartition.Code); len(w.mu.wrong) != 1 {
		t.Errorf("8 after 9 went unnoticed: %v", w.mu.wrong)
	}
	if w.refused(2, "Fetch", kerr.OffsetOutOfRange.Code); len(w.mu.wrong) != 2 {
		t.Errorf("out of range went unnoticed: %v", w.mu.wrong)
	}
}
