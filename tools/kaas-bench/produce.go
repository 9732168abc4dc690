package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceLoad produces as fast as it goes, or at a rate.
type produceLoad struct {
	target
	window
	Size        byteSize
	Rate        float64 // records a second of all producers; 0 is without a bound
	Producers   int
	Acks        string
	Linger      time.Duration
	Batch       byteSize // bytes
	Buffer      byteSize // bytes that a producer holds unacknowledged
	Compression string
	Records     int64 // of all producers; 0 goes by time

	stamped bool
}

func (l *produceLoad) String() string {
	rate := "full speed"
	if l.Rate > 0 {
		rate = count(l.Rate) + " records/s"
	}
	return fmt.Sprintf("produce %s records of %s, %d producers, acks %s, linger %v, batches to %s, %s",
		rate, &l.Size, l.Producers, l.Acks, l.Linger, &l.Batch, l.Compression)
}

func (l *produceLoad) check() error {
	switch {
	case l.Size < 1 || l.Size > l.Buffer:
		return fmt.Errorf("a record of %s is not between 1 byte and the buffer of %s", &l.Size, &l.Buffer)
	case l.Producers < 1:
		return errors.New("there are no producers")
	case l.Records == 0 && l.Duration <= 0:
		return errors.New("neither a duration nor a number of records ends the load")
	}
	return nil
}

// run returns the figures of the acknowledged records.
func (l *produceLoad) run(ctx context.Context) (*result, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	m, err := newMeter(l.Producers, kmsg.Produce.Int16(), &l.target, l.progress)
	if err != nil {
		return nil, err
	}
	defer m.close()
	w := l.window
	if l.Records > 0 {
		w = window{}
	}
	if err := m.ready(w); err != nil {
		return nil, err
	}
	running, err := l.start(ctx, m.lanes)
	if err != nil {
		return nil, err
	}
	defer running.stop()
	r, err := m.measure(ctx, w, running.done)
	if err != nil {
		return nil, err
	}
	r.Load = l.String()
	return r, nil
}

// producers are the clients while they produce.
type producers struct {
	cancel  context.CancelFunc
	clients []*kgo.Client
	wg      sync.WaitGroup
	done    chan struct{} // closed when all that was to be produced is acknowledged
}

func (l *produceLoad) start(ctx context.Context, lanes []*lane) (*producers, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &producers{cancel: cancel, done: make(chan struct{})}
	opts, err := l.options()
	if err != nil {
		cancel()
		return nil, err
	}
	for _, lane := range lanes {
		cl, err := l.client(append(opts, kgo.WithHooks(lane))...)
		if err != nil {
			p.stop()
			return nil, err
		}
		p.clients = append(p.clients, cl)
	}
	l.launch(ctx, p, lanes)
	return p, nil
}

func (l *produceLoad) launch(ctx context.Context, p *producers, lanes []*lane) {
	start := time.Now()
	var each sync.WaitGroup
	for i, cl := range p.clients {
		pace := newPacer(start.Add(l.stagger(i)), l.Rate/float64(l.Producers))
		quota := share(l.Records, l.Producers, i)
		gen := newGenerator(l.Topic, int(l.Size), uint64(i), l.stamped)
		each.Add(1)
		p.wg.Go(func() {
			defer each.Done()
			produce(ctx, cl, lanes[i], gen, pace, quota)
		})
	}
	p.wg.Go(func() {
		each.Wait()
		if ctx.Err() == nil {
			close(p.done)
		}
	})
}

// stagger spreads the beginnings of producers with a rate over one interval.
func (l *produceLoad) stagger(i int) time.Duration {
	if l.Rate == 0 {
		return 0
	}
	return time.Duration(float64(i) * float64(time.Second) / l.Rate)
}

// share is the part of total that producer i of n has; 0 is without an end.
func share(total int64, n, i int) int64 {
	if total == 0 {
		return 0
	}
	part := total / int64(n)
	if int64(i) < total%int64(n) {
		part++
	}
	return max(part, 1)
}

// produce goes on until the quota is acknowledged or ctx ends.
func produce(ctx context.Context, cl *kgo.Client, l *lane, gen *generator, pace *pacer, quota int64) {
	promise := func(r *kgo.Record, err error) {
		switch {
		case err == nil:
			l.took(time.Since(dueOf(r)), len(r.Value))
		case ctx.Err() == nil:
			l.fail(err)
		}
	}
	for n := int64(0); quota == 0 || n < quota; n++ {
		due, err := pace.due(ctx)
		if err != nil {
			return
		}
		cl.Produce(ctx, gen.next(due), promise)
	}
	_ = cl.Flush(ctx) // ends early only with ctx
}

// stop gives up what is not acknowledged.
func (p *producers) stop() {
	p.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, cl := range p.clients {
		wg.Go(func() {
			_ = cl.AbortBufferedRecords(ctx)
			cl.Close()
		})
	}
	wg.Wait()
	p.wg.Wait()
}

func (l *produceLoad) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{
		kgo.ProducerLinger(l.Linger),
		kgo.ProducerBatchMaxBytes(int32(l.Batch)),
		kgo.MaxBufferedBytes(int(l.Buffer)),
		kgo.MaxBufferedRecords(1 << 20), // the bytes are the bound
		kgo.RecordDeliveryTimeout(30 * time.Second),
		// As Apache's clients choose since Kafka 3.3.
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(int(l.Batch), true, true, nil)),
	}
	switch l.Acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5))
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5))
	default:
		return nil, fmt.Errorf("acks %q: all, 1 or 0", l.Acks)
	}
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[l.Compression]
	if !ok {
		return nil, fmt.Errorf("compression %q: none, gzip, snappy, lz4 or zstd", l.Compression)
	}
	return append(opts, kgo.ProducerBatchCompression(codec)), nil
}
