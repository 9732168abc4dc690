package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// asked is a coordinator that answers as it is told, and remembers what it was asked.
type asked struct {
	mu   sync.Mutex
	asks []TxnPartitions
	say  error
}

func (a *asked) verify(_ context.Context, ask TxnPartitions) []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asks = append(a.asks, ask)
	return slices.Repeat([]error{a.say}, len(ask.Partitions))
}

func (a *asked) take() (asks []TxnPartitions) {
	a.mu.Lock()
	defer a.mu.Unlock()
	asks, a.asks = a.asks, nil
	return asks
}

func (a *asked) answer(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.say = err
}

func txnBatch(id int64, epoch int16, seq int32, values ...string) []byte {
	return newBatch(func(b *kmsg.RecordBatch) {
		b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1<<4, id, epoch, seq
	}, values...)
}

// txn produces to partition 0 of topics as part of a transaction.
func (c *client) txn(version int16, topicBatch ...any) (codes []int16) {
	c.t.Helper()
	req := produceReq(-1, topicBatch...)
	req.Version, req.TransactionID = version, kmsg.StringPtr("tx")
	for _, t := range c.ask(req).(*kmsg.ProduceResponse).Topics {
		codes = append(codes, t.Partitions[0].ErrorCode)
	}
	return codes
}

// mark writes a marker to partition 0 of topics.
func (c *client) mark(id int64, epoch int16, commit bool, coordinator int32, version int8, topics ...string) (codes []int16) {
	c.t.Helper()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 2
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch, m.TransactionVersion = id, epoch, commit, coordinator, version
	for _, topic := range topics {
		t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		t.Topic, t.Partitions = topic, []int32{0}
		m.Topics = append(m.Topics, t)
	}
	req.Markers = append(req.Markers, m)
	resp := c.ask(req).(*kmsg.WriteTxnMarkersResponse)
	if len(resp.Markers) != 1 || resp.Markers[0].ProducerID != id {
		c.t.Fatalf("%+v", resp)
	}
	for _, t := range resp.Markers[0].Topics {
		codes = append(codes, t.Partitions[0].ErrorCode)
	}
	return codes
}

func (c *client) endAt(topic string, isolation int8, ts int64) int64 {
	c.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID, req.IsolationLevel = 7, -1, isolation
	t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	t.Topic, p.Timestamp, p.CurrentLeaderEpoch = topic, ts, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got := c.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		c.t.Fatalf("offsets of %s: %v", topic, kerr.ErrorForCode(got.ErrorCode))
	}
	return got.Offset
}

func verifyBy(n *Node, v verifyTxns) { n.server.verify.Store(&v) }

func wantCodes(t *testing.T, what string, got []int16, want ...int16) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: errors %v, want %v", what, got, want)
	}
}

// A transaction from its first batch to its marker, as producer, coordinator and
// consumers see it: T-01, T-08, L-03, P-05 and the last rule of P-08.
func TestTransactionOnTheWire(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("a", 1)
	c.create("b", 1)
	co := &asked{}
	verifyBy(n, co.verify)
	for i := range 5 {
		if code, _ := c.produce("a", newBatch(nil, fmt.Sprint(i))); code != 0 {
			t.Fatal(code)
		}
	}
	wantCodes(t, "begin", c.txn(9, "a", txnBatch(1, 0, 0, "x", "y"), "b", txnBatch(1, 0, 0, "x")), 0, 0)
	asks := co.take()
	if len(asks) != 1 || asks[0].TransactionalID != "tx" || asks[0].ProducerID != 1 || asks[0].Add || len(asks[0].Partitions) != 2 || asks[0].Partitions[1].Topic != "b" {
		t.Fatalf("asked %+v", asks)
	}
	wantCodes(t, "go on", c.txn(12, "a", txnBatch(1, 0, 2, "z")), 0)
	if asks := co.take(); len(asks) > 0 {
		t.Errorf("asked again: %+v", asks)
	}
	if code, _ := c.produce("a", newBatch(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1, 0, 3 }, "v")); code != 48 {
		t.Errorf("a plain batch of a producer with a transaction: error %d", code)
	}
	for isolation, want := range []int64{8, 5} {
		if got := c.endAt("a", int8(isolation), -1); got != want {
			t.Errorf("end by isolation level %d: %d, want %d", isolation, got, want)
		}
	}
	if got := c.endAt("b", 1, 0); got != -1 {
		t.Errorf("an open transaction's record is found: %d", got)
	}
	read := func(isolation int8, offset int64) kmsg.FetchResponseTopicPartition {
		req := fetchReq("a", offset, 0)
		req.IsolationLevel = isolation
		return c.ask(req).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	}
	if got := read(1, 0); got.LastStableOffset != 5 || got.HighWatermark != 8 || got.AbortedTransactions == nil || len(got.RecordBatches) == 0 {
		t.Errorf("committed: stable to %d of %d, %d bytes, aborted %v", got.LastStableOffset, got.HighWatermark, len(got.RecordBatches), got.AbortedTransactions)
	}
	if got := read(1, 6); got.ErrorCode != 0 || len(got.RecordBatches) > 0 {
		t.Errorf("above the last stable offset: error %d, %d bytes", got.ErrorCode, len(got.RecordBatches))
	}
	if got := read(0, 0); got.AbortedTransactions != nil || got.LastStableOffset != 5 {
		t.Errorf("uncommitted: aborted %v, stable to %d", got.AbortedTransactions, got.LastStableOffset)
	}
	wantCodes(t, "abort", c.mark(1, 1, false, 3, 2, "a", "b", "missing"), 0, 0, 3)
	wantCodes(t, "abort again", c.mark(1, 1, false, 3, 2, "a"), 0)
	wantCodes(t, "an older coordinator", c.mark(1, 1, true, 2, 1, "a"), kerr.TransactionCoordinatorFenced.Code)
	wantCodes(t, "an older epoch", c.mark(1, 0, true, 3, 1, "a"), 47)
	wantCodes(t, "a zombie's batch", c.txn(12, "a", txnBatch(1, 0, 3, "z")), 47)
	if got := read(1, 6); got.LastStableOffset != 10 || len(got.AbortedTransactions) != 1 || got.AbortedTransactions[0].ProducerID != 1 || got.AbortedTransactions[0].FirstOffset != 5 {
		t.Errorf("after the abort: stable to %d, aborted %+v", got.LastStableOffset, got.AbortedTransactions)
	}
	co.take()
	wantCodes(t, "implicit", c.txn(12, "a", txnBatch(1, 1, 0, "z")), 0)
	if asks := co.take(); len(asks) != 1 || !asks[0].Add {
		t.Errorf("asked %+v", asks)
	}
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, name := range []string{"a", "missing"} {
		rt := kmsg.NewDescribeProducersRequestTopic()
		rt.Topic, rt.Partitions = name, []int32{0}
		req.Topics = append(req.Topics, rt)
	}
	resp := c.ask(req).(*kmsg.DescribeProducersResponse)
	got := resp.Topics[0].Partitions[0].ActiveProducers
	if len(got) != 1 || got[0].ProducerID != 1 || got[0].ProducerEpoch != 1 || got[0].LastSequence != 0 || got[0].CoordinatorEpoch != 3 ||
		got[0].CurrentTxnStartOffset != 10 || time.Since(time.UnixMilli(got[0].LastTimestamp)).Abs() > time.Minute {
		t.Errorf("producers %+v", got)
	}
	if code := resp.Topics[1].Partitions[0].ErrorCode; code != 3 {
		t.Errorf("producers of a missing topic: error %d", code)
	}
}

// A fetch that waits for committed records is woken by the marker, not by records that
// are not stable.
func TestFetchWaitsForTheMarker(t *testing.T) {
	n := startNode(t, t.TempDir())
	c, consumer := dial(t, n.Addr()), dial(t, n.Addr())
	c.create("a", 1)
	verifyBy(n, (&asked{}).verify)
	for _, minBytes := range []int32{1, 200} {
		offset := c.endAt("a", 0, -1)
		seq := int32(offset)
		req := fetchReq("a", offset, 10*time.Minute)
		req.IsolationLevel, req.MinBytes = 1, minBytes
		consumer.send(req)
		wantCodes(t, "produce", c.txn(12, "a", txnBatch(offset+1, 0, 0, "v", fmt.Sprint(seq))), 0)
		for range 3 {
			wantCodes(t, "plain", c.txn(12, "a", newBatch(nil, "plain")), 0)
		}
		wantCodes(t, "marker", c.mark(offset+1, 1, true, 0, 2, "a"), 0)
		_, b := consumer.receive()
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		resp.SetVersion(req.Version)
		consumer.decode(resp, b)
		if p := resp.Topics[0].Partitions[0]; p.LastStableOffset != offset+6 || int32(len(p.RecordBatches)) < minBytes {
			t.Errorf("stable to %d, %d bytes", p.LastStableOffset, len(p.RecordBatches))
		}
	}
}

// What a coordinator says, as producers of each version may hear it.
func TestVerificationVerdicts(t *testing.T) {
	n := startNode(t, t.TempDir())
	c := dial(t, n.Addr())
	c.create("a", 1)
	served(t, n)
	wantCodes(t, "nobody knows of it", c.txn(12, "a", txnBatch(1, 0, 0, "x")), 49)
	co := &asked{}
	verifyBy(n, co.verify)
	for _, tc := range []struct {
		say      error
		old, new int16 // versions 9 and 12
	}{
		{kerr.NotCoordinator, 19, 19},
		{kerr.CoordinatorLoadInProgress, 19, 19},
		{kerr.CoordinatorNotAvailable, 19, 19},
		{context.DeadlineExceeded, 19, 19},
		{errors.New("connection refused"), 19, 19},
		{kerr.ConcurrentTransactions, 19, 51},
		{kerr.ProducerFenced, 47, 47},
		{kerr.InvalidProducerEpoch, 47, 47},
		{kerr.TransactionAbortable, 48, 120},
		{fmt.Errorf("%w: who is that", kerr.InvalidProducerIDMapping), 49, 49},
		{kerr.InvalidTxnState, 48, 48},
	} {
		co.answer(tc.say)
		wantCodes(t, tc.say.Error(), c.txn(9, "a", txnBatch(1, 0, 0, "x")), tc.old)
		wantCodes(t, tc.say.Error(), c.txn(12, "a", txnBatch(1, 0, 0, "x")), tc.new)
	}
	co.answer(nil)
	c.create("b", 1)
	wantCodes(t, "two producers", c.txn(12, "a", txnBatch(1, 0, 0, "x"), "b", txnBatch(2, 0, 0, "x")), 49, 49)
	if got := c.end("a") + c.end("b"); got != 0 {
		t.Errorf("%d records are stored", got)
	}
	wantCodes(t, "at last", c.txn(12, "a", txnBatch(1, 0, 0, "x")), 0)
}
