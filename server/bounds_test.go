package server

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
)

// Requests with records share one budget, over all connections: what does not fit beside
// those that are not answered is not read.
func TestProduceRequestsShareABudget(t *testing.T) {
	old := apis
	defer func() { apis = old }()
	var answer, started chan struct{}
	apis = []api{{key: kmsg.Produce, max: 13, records: true, start: func(*Server, context.Context, *request) (reply, error) {
		started <- struct{}{}
		return later(func(context.Context) (kmsg.Response, error) {
			<-answer
			return kmsg.NewPtrProduceResponse(), nil
		})
	}}}
	synctest.Test(t, func(t *testing.T) {
		answer, started = make(chan struct{}), make(chan struct{}, 10)
		s := pipeServer(t, "queued.max.request.bytes=10000")
		req := frame(produceReq(-1, "t", newBatch(nil, string(make([]byte, 6000)))), 1)
		var conns []net.Conn
		for range 2 {
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			conns = append(conns, mine)
			go func() { _, _ = mine.Write(req) }()
			synctest.Wait()
		}
		if n := len(started); n != 1 {
			t.Errorf("%d requests of 6000 bytes were started, 10000 may be held", n)
		}
		if used := s.queued.mu.used; used < 6000 || used > 10000 {
			t.Errorf("%d bytes are held", used)
		}
		close(answer)
		for _, nc := range conns {
			if _, err := nc.Read(make([]byte, 100)); err != nil {
				t.Error(err)
			}
			nc.Close()
		}
		if n := len(started); n != 2 {
			t.Errorf("%d requests were started in the end", n)
		}
	})
}

// A request without records that claims too much ends its connection before its bytes
// are waited for; one with records does not.
func TestLargeControlRequestIsRefused(t *testing.T) {
	for _, tc := range []struct {
		key, size int
		refused   bool
	}{{3, controlMax + 1, true}, {3, controlMax, false}, {1, controlMax + 1, true}, {0, controlMax + 1, false}} {
		synctest.Test(t, func(t *testing.T) {
			s := pipeServer(t)
			mine, theirs := net.Pipe()
			s.take(0, theirs)
			began := time.Now()
			head := []byte{byte(tc.size >> 24), byte(tc.size >> 16), byte(tc.size >> 8), byte(tc.size), 0, byte(tc.key), 0, 9, 0, 0, 0, 1}
			if _, err := mine.Write(head); err != nil {
				t.Fatal(err)
			}
			_, err := mine.Read(make([]byte, 1))
			if d := time.Since(began); !errors.Is(err, io.EOF) || d == 0 != tc.refused {
				t.Errorf("key %d, %d bytes: %v after %v", tc.key, tc.size, err, d)
			}
			mine.Close()
		})
	}
}

// What lies beyond the end is out of range at once, however long the fetch would wait,
// and the answer tells what the range is.
func TestFetchBeyondTheEndIsAnsweredAtOnce(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("t", 2)
	c.produceTo("t", 1, "a", "b", "c")
	for partition, end := range []int64{0, 3} {
		for _, beyond := range []int64{1, 2, 5, 6, 1 << 40} {
			req := fetchReq("t", end+beyond, 10*time.Minute)
			req.Topics[0].Partitions[0].Partition = int32(partition)
			got := c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
			if got.ErrorCode != 1 || got.HighWatermark != end || got.LogStartOffset != 0 {
				t.Errorf("%d beyond %d: error %d, high watermark %d, log start %d", beyond, end, got.ErrorCode, got.HighWatermark, got.LogStartOffset)
			}
		}
	}
}

// unchecked is a cluster whose Checks fail.
type unchecked struct {
	Backend
	err error
}

func (u unchecked) Fresh(context.Context, time.Duration) error { return u.err }
func (u unchecked) CheckFresh(context.Context) error           { return u.err }

// Nothing that is read is told without the Check that vouches for it.
func TestReadsNeedTheirCheck(t *testing.T) {
	n := startNode(t, t.TempDir())
	w := dial(t, n.Addr())
	w.create("t", 1)
	w.produceTo("t", 0, "v")
	for want, err := range map[int16]error{6: substrate.ErrFenced, 56: errors.New("the volume does not answer"), 0: nil} {
		ln, lerr := net.Listen("tcp", "127.0.0.1:0")
		if lerr != nil {
			t.Fatal(lerr)
		}
		s := Start(n.cfg, "cluster", unchecked{broker{n.broker}, err}, []net.Listener{ln}, newMetrics(), testLog(t))
		c := dial(t, ln.Addr().String())
		if got := c.fetch("t", 0); got.ErrorCode != want || len(got.RecordBatches) > 0 != (want == 0) {
			t.Errorf("fetch with Check %v: error %d, %d bytes", err, got.ErrorCode, len(got.RecordBatches))
		}
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 5, -1
		rt, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
		rt.Topic, p.Timestamp = "t", -1
		rt.Partitions = append(rt.Partitions, p)
		req.Topics = append(req.Topics, rt)
		if got := c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; got.ErrorCode != want || got.Offset >= 0 != (want == 0) {
			t.Errorf("list offsets with Check %v: error %d, offset %d", err, got.ErrorCode, got.Offset)
		}
		s.Shutdown(t.Context())
	}
}
