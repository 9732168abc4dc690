package traffic

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// zombie has the transactional ID taken over while the transaction is written and committed,
// and then has the earlier client go on as if it had not heard of it.
func (t *transactor) zombie(ctx context.Context, x *txn) int {
	old := t.cur
	n := t.write(ctx, x)
	if !x.acked(ctx) {
		_ = x.end(ctx, false)
		t.discard()
		return n
	}
	taken := make(chan bool)
	go func() { taken <- t.client(ctx) }()
	n += t.write(ctx, x)
	_ = x.end(ctx, x.acked(ctx)) // who comes first wins
	if <-taken {
		own, cancel := context.WithTimeout(context.Background(), txnTime)
		defer cancel()
		t.late(own, x)
	}
	old.drop()
	return n
}

// lateRecords are sent, each to another partition, by a client that does not know that it is
// a zombie.
const lateRecords = 3

// late sends what a zombie may send: records of the transaction that it thinks open, and an
// end of that. It does not go through the client, which has heard of its fence.
func (t *transactor) late(ctx context.Context, x *txn) {
	c := x.c
	number, who := t.env.Log.Txn(), x.who
	if newer, _ := c.producer(ctx); newer.id == who.id && newer.epoch > who.epoch { // its end came first
		who, x.records = newer, nil
	}
	for _, i := range t.rng.Perm(len(t.places))[:lateRecords] {
		at := t.places[i]
		if leader, _, ok := t.lead.of(ctx, at); ok {
			c.sent++
			t.sendLate(leader, at, c, number, who, x.records[at])
		}
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = c.id, who.id, who.epoch, true
	invoke := t.env.Log.Now()
	resp, err := req.RequestWith(ctx, t.raw)
	written := int64(2)
	if err == nil {
		err, written = kerr.ErrorForCode(resp.ErrorCode), 1
	}
	outcome, text := endOutcome(true, err, written)
	t.env.ended(c.proc, number, invoke, outcome, text)
}

// sendLate sends a record to a broker, with a sequence number that would be right.
func (t *transactor) sendLate(leader int32, at place, c *txnClient, number int32, who producer, sequence int32) {
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID = &c.id
	op := history.Op{Kind: history.Produce, Proc: c.proc, Part: at.part, Txn: number, Value: history.Value(c.proc, c.sent), Epoch: -1}
	op = produceOnce(t.raw, t.env.Log, leader, at, -1, req, op, batch(encode(op.Value), who, sequence))
	if op.Outcome != history.Failed {
		t.lead.forget()
	}
}
