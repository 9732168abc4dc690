package traffic

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// plain is a producer that sends each record once, in a request of its own, and waits
// for what comes of it. Every so often it sends one that must be refused.
type plain struct {
	env    *Env
	name   string
	acks   int16
	proc   int32
	cl     *kgo.Client
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

const (
	refuseEvery = 20
	produceTime = 4 * time.Second // that an answer is waited for
)

func (p *plain) Start() (err error) {
	if p.cl, err = p.env.raw(); err != nil {
		return err
	}
	p.proc = p.env.Log.Proc(p.name, history.Plain)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.send)
	return nil
}

func (p *plain) send() {
	places := p.env.places(nil)
	lead := newLeaders(p.cl, p.env.Topics)
	rng := rand.New(rand.NewPCG(uint64(p.env.Seed), uint64(p.proc)))
	tick := time.NewTicker(time.Second / time.Duration(p.env.Rate))
	defer tick.Stop()
	for n := int64(1); ; n++ {
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
		at := places[rng.IntN(len(places))]
		leader, _, ok := lead.of(p.ctx, at)
		if !ok {
			continue // not sent
		}
		raw := Batch(encode(history.Value(p.proc, n)))
		if n%refuseEvery == 0 {
			raw = damaged(raw)
		}
		if op := sendOnce(p.cl, p.env.Log, leader, at, p.acks, p.proc, n, raw); op.Outcome != history.OK && n%refuseEvery != 0 {
			lead.forget()
		}
	}
}

// sendOnce sends one record to a broker and notes what came of it.
func sendOnce(cl *kgo.Client, log *history.Recorder, leader int32, at place, acks int16, proc int32, n int64, raw []byte) history.Op {
	op := history.Op{Kind: history.Produce, Proc: proc, Part: at.part, Value: history.Value(proc, n), Epoch: -1}
	return produceOnce(cl, log, leader, at, acks, kmsg.NewPtrProduceRequest(), op, raw)
}

// produceOnce sends a record, whose batch it puts into the request. An answer that was begun
// is waited for when the run ends, so that its outcome is known.
func produceOnce(cl *kgo.Client, log *history.Recorder, leader int32, at place, acks int16, req *kmsg.ProduceRequest, op history.Op, raw []byte) history.Op {
	req.Acks, req.TimeoutMillis = acks, int32(produceTime/2/time.Millisecond)
	t, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, part.Partition, part.Records = at.topic, at.index, raw
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)

	ctx, cancel := context.WithTimeout(context.Background(), produceTime)
	defer cancel()
	op.Invoke = log.Now()
	resp, err := cl.Broker(int(leader)).Request(ctx, req)
	op.Complete = log.Now()
	op.Outcome, op.Offset = produced(resp, err, &op.Text)
	log.Add(op)
	return op
}

// refusals are the errors with which nothing can have been stored.
var refusals = []*kerr.Error{
	kerr.CorruptMessage, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRequiredAcks, kerr.InvalidTimestamp,
	kerr.InvalidRecord, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerEpoch, kerr.ProducerFenced,
}

func produced(resp kmsg.Response, err error, text *string) (history.Outcome, int64) {
	if err == nil {
		r, ok := resp.(*kmsg.ProduceResponse)
		if !ok || len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
			*text = "an answer of another form"
			return history.Unknown, -1
		}
		part := &r.Topics[0].Partitions[0]
		if err = kerr.ErrorForCode(part.ErrorCode); err == nil {
			return history.OK, part.BaseOffset
		}
	}
	*text = err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) && slices.Contains(refusals, ke) {
		return history.Failed, -1
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return history.Failed, -1 // never sent
	}
	return history.Unknown, -1
}

func (p *plain) Stop(context.Context) {
	p.cancel()
	p.wg.Wait()
	p.cl.Close()
}
