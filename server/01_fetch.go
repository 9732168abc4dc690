package server

// Fetch, key 1, versions 4 to 18.
//
// Every answer has session ID 0: clients send all their partitions each time. A
// request inside a session that was never given gets FETCH_SESSION_ID_NOT_FOUND and
// the client starts over. Topics are named by ID from version 13. The first batch
// found is sent even if it is larger than asked for (KIP-74). Answers rest on a
// Check no older than a second. A consumer is never told an error code that the
// Java client does not know for Fetch. NOT_LEADER_OR_FOLLOWER carries the leader from
// version 12 and its address from version 16.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/partition"
	"kaas.dev/kaas/projections"
)

var fetchAPI = api{key: kmsg.Fetch, min: 4, max: 18, start: (*Server).fetch}

// noRecords is an empty answer; librdkafka takes a null one for damage.
var noRecords = []byte{}

const (
	fetchMaxAge  = time.Second
	maxFetchWait = 5 * time.Minute
)

// fetchCall is one request on its way.
type fetchCall struct {
	s    *Server
	conn *conn
	turn <-chan struct{}
	req  *kmsg.FetchRequest
	resp *kmsg.FetchResponse
	view *projections.Cluster
	from []fetchFrom // one for each partition asked for, in order

	minBytes, maxBytes int
}

// fetchFrom is one partition of a request.
type fetchFrom struct {
	in    *kmsg.FetchRequestTopicPartition
	out   *kmsg.FetchResponseTopicPartition
	topic *projections.Topic
	part  *partition.Partition // nil if there is an error in out already
}

func (s *Server) fetch(_ context.Context, r *request) (reply, error) {
	req := r.msg.(*kmsg.FetchRequest)
	c := &fetchCall{s: s, conn: r.conn, turn: r.turn, req: req, resp: kmsg.NewPtrFetchResponse()}
	c.resp.Version = r.version
	if req.Version >= 7 && req.SessionEpoch != 0 && req.SessionEpoch != -1 {
		c.resp.ErrorCode = kerr.FetchSessionIDNotFound.Code
		s.metrics.failed(kmsg.Fetch, c.resp.ErrorCode)
		return now(c.resp)
	}
	c.maxBytes = int(min(int64(max(req.MaxBytes, 0)), s.cfg.FetchMaxBytes))
	c.minBytes = min(int(req.MinBytes), c.maxBytes)
	c.layOut()
	return later(c.wait)
}

// layOut makes the answer's shape: what was asked for, in that order.
func (c *fetchCall) layOut() {
	c.resp.Topics = make([]kmsg.FetchResponseTopic, len(c.req.Topics))
	for i := range c.req.Topics {
		in, out := &c.req.Topics[i], &c.resp.Topics[i]
		out.Default()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		out.Partitions = make([]kmsg.FetchResponseTopicPartition, len(in.Partitions))
		for j := range in.Partitions {
			c.from = append(c.from, fetchFrom{in: &in.Partitions[j], out: &out.Partitions[j]})
		}
	}
}

// wait polls until there is enough, the time is over, or the broker stops.
func (c *fetchCall) wait(ctx context.Context) (kmsg.Response, error) {
	limit := min(time.Duration(max(c.req.MaxWaitMillis, 0))*time.Millisecond, maxFetchWait)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for over := false; ; {
		c.find()
		changed := c.changes()
		got, failed := c.available()
		if got >= c.minBytes || failed || over {
			break
		}
		over = !waitAny(ctx, changed, timer.C, c.s.stop)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	select {
	case <-c.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, volumeWait)
	defer cancel()
	fresh := c.s.metrics.checked(c.s.backend.Fresh(ctx, fetchMaxAge))
	c.read(ctx, fresh)
	return c.resp, nil
}

// find looks every partition up anew: while waiting it may have been deleted, or moved.
func (c *fetchCall) find() {
	c.view = c.s.backend.View()
	k := 0
	for i := range c.req.Topics {
		in := &c.req.Topics[i]
		t := topicOf(c.view, c.req.Version >= 13, in.Topic, in.TopicID)
		for range in.Partitions {
			f := &c.from[k]
			k++
			f.topic, f.part = t, nil
			f.out.Default()
			f.out.RecordBatches = noRecords
			f.out.Partition, f.out.HighWatermark, f.out.LastStableOffset, f.out.LogStartOffset = f.in.Partition, -1, -1, -1
			if err := c.findOne(f); err != nil {
				f.part = nil
				c.fail(f, err)
			}
		}
	}
}

func (c *fetchCall) findOne(f *fetchFrom) (err error) {
	if f.topic == nil {
		if c.req.Version >= 13 {
			return kerr.UnknownTopicID
		}
		return kerr.UnknownTopicOrPartition
	}
	if f.part, err = c.s.backend.Partition(f.topic.ID, f.in.Partition); err != nil {
		return err
	}
	if err := checkEpoch(f.part, f.in.CurrentLeaderEpoch); err != nil {
		return err
	}
	start, high, _ := f.part.Offsets()
	if f.in.FetchOffset < start || f.in.FetchOffset > high {
		f.out.LogStartOffset, f.out.HighWatermark = start, high
		return kerr.OffsetOutOfRange
	}
	return nil
}

// checkEpoch compares what a client believes to be the leader epoch (KIP-320).
func checkEpoch(p *partition.Partition, epoch int32) error {
	switch mine := p.LeaderEpoch(); {
	case epoch < 0 || epoch == mine:
		return nil
	case epoch < mine:
		return kerr.FencedLeaderEpoch
	default:
		return kerr.UnknownLeaderEpoch
	}
}

// changes are the channels that tell of news; taken before looking for news, so
// that none falls between.
func (c *fetchCall) changes() []<-chan struct{} {
	out := make([]<-chan struct{}, 0, len(c.from))
	for i := range c.from {
		if p := c.from[i].part; p != nil {
			out = append(out, p.Changed())
		}
	}
	return out
}

// available is how many bytes could be answered, at least 1 for a partition with
// anything in it, and whether an error should be told at once.
func (c *fetchCall) available() (bytes int, failed bool) {
	for i := range c.from {
		f := &c.from[i]
		if f.part == nil {
			failed = true
			continue
		}
		if _, high, _ := f.part.Offsets(); high <= f.in.FetchOffset {
			continue
		}
		if c.minBytes <= 1 {
			return 1, failed
		}
		// More than one byte is asked for: only reading tells how many there are.
		got, err := f.part.Read(c.conn.ctx, f.in.FetchOffset, min(int(f.in.PartitionMaxBytes), c.maxBytes-bytes), bytes == 0)
		if err != nil {
			return bytes, true
		}
		bytes += len(got.Records)
	}
	return bytes, failed || bytes >= c.maxBytes || len(c.from) == 0 && c.minBytes <= 0
}

// read fills in the records. fresh is the outcome of the Check that vouches for them.
func (c *fetchCall) read(ctx context.Context, fresh error) {
	left, one := c.maxBytes, true
	for i := range c.from {
		f := &c.from[i]
		if f.part == nil {
			continue
		}
		if fresh != nil {
			c.fail(f, fresh)
			continue
		}
		got, err := f.part.Read(ctx, f.in.FetchOffset, max(0, min(int(f.in.PartitionMaxBytes), left)), one)
		if err != nil {
			c.fail(f, err)
			continue
		}
		f.out.HighWatermark, f.out.LastStableOffset, f.out.LogStartOffset = got.HighWatermark, got.LastStableOffset, got.LogStart
		if got.Records != nil {
			f.out.RecordBatches = got.Records
		}
		left -= len(got.Records)
		if len(got.Records) > 0 {
			one = false
			c.s.metrics.fetched(f.topic.Name, len(got.Records))
		}
	}
}

// fetchCodes are the codes that consumers understand here; others make the Java
// client fail for good.
var fetchCodes = []int16{-1, 1, 2, 3, 6, 9, 29, 56, 74, 75, 78, 100, 103}

func (c *fetchCall) fail(f *fetchFrom, err error) {
	f.out.ErrorCode = c.s.failure(kmsg.Fetch, err)
	if errors.Is(err, context.DeadlineExceeded) || !slices.Contains(fetchCodes, f.out.ErrorCode) {
		f.out.ErrorCode = kerr.KafkaStorageError.Code
	}
	if f.out.ErrorCode != kerr.NotLeaderForPartition.Code || c.req.Version < 12 {
		return
	}
	leader, epoch := leaderOf(f.topic, f.in.Partition)
	f.out.CurrentLeader.LeaderID, f.out.CurrentLeader.LeaderEpoch = leader, epoch
	b, ok := c.view.Broker(leader)
	if !ok || c.req.Version < 16 || slices.ContainsFunc(c.resp.Brokers, func(b kmsg.FetchResponseBroker) bool { return b.NodeID == leader }) {
		return
	}
	if n, ok := c.s.nodeOf(b, c.conn); ok {
		rb := kmsg.NewFetchResponseBroker()
		rb.NodeID, rb.Host, rb.Port, rb.Rack = n.id, n.host, n.port, n.rack
		c.resp.Brokers = append(c.resp.Brokers, rb)
	}
}
