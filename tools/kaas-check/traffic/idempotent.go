package traffic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// idempotent is a producer that tries each record until it is acknowledged.
type idempotent struct {
	env    *Env
	name   string
	proc   int32
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func (p *idempotent) Start() (err error) {
	p.cl, err = p.env.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(500),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.StopProducerOnDataLossDetected())
	if err != nil {
		return err
	}
	p.proc = p.env.Log.Proc(p.name, history.Idempotent)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(func() { p.send(ctx) })
	return nil
}

func (p *idempotent) send(ctx context.Context) {
	places := p.env.places(nil)
	rng := rand.New(rand.NewPCG(uint64(p.env.Seed), uint64(p.proc)))
	tick := time.NewTicker(time.Second / time.Duration(p.env.Rate))
	defer tick.Stop()
	for n := int64(1); ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.one(places[rng.IntN(len(places))], n)
	}
}

// one sends a record. Where the buffer is full nothing is sent.
func (p *idempotent) one(at place, n int64) {
	op := history.Op{Kind: history.Produce, Proc: p.proc, Part: at.part, Value: history.Value(p.proc, n), Epoch: -1, Offset: -1, Invoke: p.env.Log.Now()}
	rec := &kgo.Record{Topic: at.topic, Partition: at.index, Value: encode(op.Value)}
	p.cl.TryProduce(context.Background(), rec, func(r *kgo.Record, err error) {
		op.Complete = p.env.Log.Now()
		switch {
		case errors.Is(err, kgo.ErrMaxBuffered):
			return
		case err == nil:
			op.Outcome, op.Offset = history.OK, r.Offset
		default:
			op.Outcome, op.Text = history.Unknown, err.Error()
		}
		p.env.Log.Add(op)
		if toldOfLoss(err) {
			p.env.Log.Note(p.proc, at.part, history.Failed, fmt.Sprintf("was told, of record %s: %v", history.TellValue(op.Value), err))
		}
	})
}

// toldOfLoss is whether a broker tells an idempotent producer that records are missing
// or that it is another.
func toldOfLoss(err error) bool {
	for _, loss := range []error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.DuplicateSequenceNumber} {
		if errors.Is(err, loss) {
			return true
		}
	}
	return false
}

func (p *idempotent) Stop(ctx context.Context) {
	p.cancel()
	p.wg.Wait()
	_ = p.cl.Flush(ctx) // what is not answered by then is unknown
	p.cl.Close()
}
