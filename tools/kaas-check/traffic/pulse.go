package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/tools/kaas-check/history"
)

// pulse writes to one partition a record at a time, so that what it waits for is what a
// partition was not there for. Its client looks for a new leader at once, and again soon.
type pulse struct {
	env    *Env
	at     place
	cl     *kgo.Client
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// between is from an acknowledgement to the next record.
const between = 15 * time.Millisecond

// Pulses are one for each partition of the topics that others write to, too.
func (e *Env) Pulses() (out []Traffic) {
	e = e.plainly()
	for _, at := range e.places(nil) {
		out = append(out, &pulse{env: e, at: at})
	}
	return out
}

// Start implements Traffic.
func (p *pulse) Start() (err error) {
	p.cl, err = p.env.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MetadataMinAge(20*time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		return err
	}
	proc := p.env.Log.Proc(fmt.Sprintf("pulse of %s/%d", p.at.topic, p.at.index), history.Idempotent)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(func() {
		for n := int64(1); sleep.For(ctx, between); n++ {
			p.one(proc, n)
		}
	})
	return nil
}

func (p *pulse) one(proc int32, n int64) {
	op := history.Op{Kind: history.Produce, Proc: proc, Part: p.at.part, Value: history.Value(proc, n), Epoch: -1, Offset: -1, Invoke: p.env.Log.Now()}
	r := p.cl.ProduceSync(context.Background(), &kgo.Record{Topic: p.at.topic, Partition: p.at.index, Value: encode(op.Value)})[0]
	op.Complete = p.env.Log.Now()
	if r.Err == nil {
		op.Outcome, op.Offset = history.OK, r.Record.Offset
	} else {
		op.Outcome, op.Text = history.Unknown, r.Err.Error()
	}
	p.env.Log.Add(op)
	if toldOfLoss(r.Err) {
		p.env.Log.Note(proc, p.at.part, history.Failed, fmt.Sprintf("was told, of record %s: %v", history.TellValue(op.Value), r.Err))
	}
}

// Stop implements Traffic.
func (p *pulse) Stop(ctx context.Context) {
	p.cancel()
	done := make(chan struct{})
	go func() { p.wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		p.cl.Close() // which ends what is under way
		<-done
	}
	p.cl.Close()
}
