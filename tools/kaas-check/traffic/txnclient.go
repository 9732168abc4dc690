package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// txnClient is a producer with a transactional ID, from when it was given its epoch to its
// end. The next with the ID fences it.
type txnClient struct {
	env  *Env
	id   string
	proc int32
	wire *wire
	cl   *kgo.Client
	sent int64        // records; of one goroutine
	ends atomic.Int64 // EndTxn requests that were written
}

// producer is who a client is for brokers.
type producer struct {
	id    int64
	epoch int16
}

const (
	initTime    = 15 * time.Second
	txnTime     = 15 * time.Second // for one transaction
	txnTimeout  = 20 * time.Second // that its coordinator gives it
	keyEndTxn   = 26
	sweepMillis = 500
)

// TxnSets are the settings of brokers that transactions want: those that nobody ends are
// looked for more often.
func TxnSets() []string {
	return []string{fmt.Sprintf("transaction.abort.timed.out.transaction.cleanup.interval.ms=%d", sweepMillis)}
}

// transactional makes the n-th client of a transactional ID, which has fenced all before it.
func (e *Env) transactional(ctx context.Context, id string, n int, timeout time.Duration) (*txnClient, error) {
	c := &txnClient{env: e, id: id, wire: &wire{dial: e.Dial}}
	var err error
	c.cl, err = e.clientBy(c.wire.connect, kgo.TransactionalID(id), kgo.TransactionTimeout(timeout), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.WithHooks(c))
	if err != nil {
		return nil, err
	}
	c.proc = e.Log.Join(history.Proc{Name: fmt.Sprintf("%s, client %d", id, n), Role: history.Transactional, TxnID: id})
	if err := e.initProducer(ctx, c.cl, c.proc); err != nil {
		c.drop()
		return nil, err
	}
	return c, nil
}

// initProducer has a client ask for its producer, which fences all that had its transactional ID.
func (e *Env) initProducer(ctx context.Context, cl *kgo.Client, proc int32) error {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	invoke := e.Log.Now()
	id, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	e.Log.Add(history.Op{
		Kind: history.Init, Outcome: history.OK, Proc: proc, Part: -1, Epoch: int32(epoch), Offset: -1,
		Invoke: invoke, Complete: e.Log.Now(), Value: uint64(id),
	})
	return nil
}

// OnBrokerWrite is told of every request that was written, or of which a part was.
func (c *txnClient) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, bytes int, _, _ time.Duration, _ error) {
	if key == keyEndTxn && bytes > 0 {
		c.ends.Add(1)
	}
}

// drop ends the client without a word to anybody.
func (c *txnClient) drop() {
	c.wire.cut()
	c.cl.Close()
}

// txn is an open transaction of a client.
type txn struct {
	c       *txnClient
	number  int32
	who     producer
	records map[place]int32 // sent to each partition
	wait    chan error      // one for each record
	left    int
	lost    bool // a record was not acknowledged
}

// begin begins one.
func (c *txnClient) begin(ctx context.Context) (*txn, error) {
	if err := c.cl.BeginTransaction(); err != nil {
		return nil, err
	}
	who, err := c.producer(ctx)
	return &txn{c: c, number: c.env.Log.Txn(), who: who, records: map[place]int32{}, wait: make(chan error, 1000)}, err
}

func (c *txnClient) producer(ctx context.Context) (producer, error) {
	ctx, cancel := context.WithTimeout(ctx, initTime)
	defer cancel()
	id, epoch, err := c.cl.ProducerID(ctx)
	return producer{id, epoch}, err
}

// send sends a record in the transaction.
func (t *txn) send(ctx context.Context, at place) {
	c := t.c
	c.sent++
	t.records[at]++
	t.left++
	op := history.Op{Kind: history.Produce, Proc: c.proc, Part: at.part, Txn: t.number, Value: history.Value(c.proc, c.sent), Epoch: -1, Offset: -1, Invoke: c.env.Log.Now()}
	c.cl.Produce(ctx, &kgo.Record{Topic: at.topic, Partition: at.index, Value: encode(op.Value)}, func(r *kgo.Record, err error) {
		t.wait <- c.env.sentInTxn(op, r, err)
	})
}

// sentInTxn notes what came of a record.
func (e *Env) sentInTxn(op history.Op, r *kgo.Record, err error) error {
	op.Outcome, op.Complete = history.OK, e.Log.Now()
	if err == nil {
		op.Offset = r.Offset
	} else {
		op.Outcome, op.Text = history.Unknown, err.Error()
	}
	e.Log.Add(op)
	if errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.UnknownProducerID) {
		e.Log.Note(op.Proc, op.Part, history.Failed, fmt.Sprintf("was told, of record %s: %v", history.TellValue(op.Value), err))
	}
	return err
}

// acked waits until something is known of all records, or ctx ends, and is whether all were
// acknowledged.
func (t *txn) acked(ctx context.Context) bool {
	for ; t.left > 0; t.left-- {
		select {
		case err := <-t.wait:
			t.lost = t.lost || err != nil
		case <-ctx.Done():
			return false
		}
	}
	return !t.lost
}

// end ends the transaction. After an error the client is of no more use.
func (t *txn) end(ctx context.Context, commit bool) error {
	if !commit {
		_ = t.c.cl.AbortBufferedRecords(ctx) // what is not over by then the end tells
	}
	invoke, written := t.c.env.Log.Now(), t.c.ends.Load()
	err := t.c.cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
	outcome, text := endOutcome(commit, err, t.c.ends.Load()-written)
	t.c.env.ended(t.c.proc, t.number, invoke, outcome, text)
	return err
}

// leave leaves it open, for others to end.
func (t *txn) leave() {
	t.c.env.ended(t.c.proc, t.number, t.c.env.Log.Now(), history.Failed, "given up")
	t.c.drop()
}

// ended notes the end of a transaction.
func (e *Env) ended(proc, number int32, invoke int64, outcome history.Outcome, text string) {
	e.Log.Add(history.Op{
		Kind: history.TxnEnd, Outcome: outcome, Proc: proc, Part: -1, Txn: number, Epoch: -1, Offset: -1,
		Invoke: invoke, Complete: e.Log.Now(), Text: text,
	})
}

// endOutcome is what came of an end whose request was written so many times. What nobody
// asked to commit is not committed, whatever else.
func endOutcome(commit bool, err error, written int64) (history.Outcome, string) {
	switch {
	case err == nil && commit:
		return history.OK, ""
	case err == nil:
		return history.Failed, ""
	}
	var dial *net.OpError
	never := written == 0 && (errors.Is(err, kerr.OperationNotAttempted) || errors.As(err, &dial) && dial.Op == "dial")
	refused := written == 1 && slices.ContainsFunc(endRefusals, func(e *kerr.Error) bool { return errors.Is(err, e) })
	if !commit || never || refused {
		return history.Failed, err.Error()
	}
	return history.Unknown, err.Error()
}

// endRefusals are the errors with which nothing was committed.
var endRefusals = []*kerr.Error{kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping, kerr.TransactionAbortable}
