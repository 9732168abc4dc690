package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/sleep"
)

// keeping is a load that writes to every partition again and again.
type keeping struct {
	Producers int
	Every     time.Duration // between two records of a partition
	Size      byteSize
}

// Clients look for new leaders and try again this soon, on any server. Their defaults
// are seconds, which would hide how fast a server is.
const (
	keepRetry    = 20 * time.Millisecond // wait before a request is sent again
	keepMetadata = 50 * time.Millisecond // least time between two requests for metadata
	keepGiveUp   = 2 * time.Minute       // a record fails, as with Apache's clients
)

// keepers are the running producers.
type keepers struct {
	pulses  pulses
	cancel  context.CancelFunc
	clients []*kgo.Client
	wg      sync.WaitGroup
	mu      struct {
		sync.Mutex
		latency latencies // from sending to acknowledgement
		tally   tally
	}
}

// tally is how the records of a load ended.
type tally struct {
	Acked   int64            `json:"acknowledged"`
	Failed  int64            `json:"failed"`  // a server said that they are not written
	Unknown int64            `json:"unknown"` // nobody knows
	Reasons map[string]int64 `json:"reasons,omitempty"`
}

func (k *keeping) start(ctx context.Context, f *fleet, l *layout) (*keepers, error) {
	ctx, cancel := context.WithCancel(ctx)
	run := &keepers{pulses: newPulses(len(l.places)), cancel: cancel}
	run.mu.latency = newLatencies()
	value := make([]byte, k.Size)
	first := 0
	for i := range k.Producers {
		cl, err := kgo.NewClient(keeperOptions(f)...)
		if err != nil {
			run.stop()
			return nil, fmt.Errorf("producer of %s: %w", f.kind.name(), err)
		}
		run.clients = append(run.clients, cl)
		// Neighbours are of few topics, so that metadata stays small.
		mine := int(share(int64(len(l.places)), k.Producers, i))
		from, delay := first, k.Every*time.Duration(i)/time.Duration(k.Producers)
		first += mine
		run.wg.Go(func() { run.keep(ctx, cl, l, from, from+mine, value, delay, k.Every) })
	}
	return run, nil
}

func keeperOptions(f *fleet) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(f.addrs()...), kgo.AlwaysRetryEOF(), kgo.ClientID("kaas-bench"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(0),
		kgo.MaxBufferedRecords(1 << 24), // pulses bound them
		kgo.RecordDeliveryTimeout(keepGiveUp),
		kgo.DialTimeout(time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return keepRetry }),
		kgo.MetadataMinAge(keepMetadata), kgo.MetadataMaxAge(time.Second),
		kgo.UnknownTopicRetries(-1),
	}
}

// keep writes to the partitions from one number to below another, all of them at each
// beat.
func (run *keepers) keep(ctx context.Context, cl *kgo.Client, l *layout, from, to int, value []byte, delay, every time.Duration) {
	begin := time.NewTimer(delay)
	defer begin.Stop()
	select {
	case <-ctx.Done():
		return
	case <-begin.C:
	}
	beat := time.NewTicker(every)
	defer beat.Stop()
	for {
		for i := from; i < to; i++ {
			run.send(ctx, cl, l.places[i], run.pulses[i], value)
		}
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

func (run *keepers) send(ctx context.Context, cl *kgo.Client, at place, p *pulse, value []byte) {
	sent := time.Now()
	if !p.send(sent) {
		return
	}
	cl.Produce(ctx, &kgo.Record{Topic: at.topic, Partition: at.partition, Value: value}, func(_ *kgo.Record, err error) {
		now := time.Now()
		if err == nil {
			p.acked(sent, now)
		} else {
			p.ended()
		}
		if err == nil || ctx.Err() == nil {
			run.count(now.Sub(sent), err)
		}
	})
}

// count takes one record's end.
func (run *keepers) count(took time.Duration, err error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	if err == nil {
		run.mu.latency.add(took)
	}
	run.mu.tally.add(err)
}

func (t *tally) add(err error) {
	var told *kerr.Error
	switch {
	case err == nil:
		t.Acked++
		return
	case errors.As(err, &told) && !errors.Is(err, kerr.RequestTimedOut) && !errors.Is(err, kerr.NotEnoughReplicasAfterAppend):
		t.Failed++
	default:
		t.Unknown++
	}
	if t.Reasons == nil {
		t.Reasons = map[string]int64{}
	}
	reason, _, _ := strings.Cut(err.Error(), ":")
	t.Reasons[reason]++
}

// awaitAlive waits until every partition has had an acknowledgement.
func (run *keepers) awaitAlive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	until(ctx, 20*time.Millisecond, run.pulses.alive)
	if !run.pulses.alive() {
		return fmt.Errorf("some partitions acknowledge nothing: %w", context.Cause(ctx))
	}
	return nil
}

// calm is what a load does with a server that is left in peace.
type calm struct {
	RecordsPerSecond float64       `json:"records_per_second"`
	Ack              *quantiles    `json:"ack_ms"`
	Silence          *distribution `json:"silence_ms"` // longest time without an acknowledgement, by partition
}

// measure looks at the load for a while, and until it has seen an acknowledgement.
func (run *keepers) measure(ctx context.Context, d time.Duration) (*calm, error) {
	run.mu.Lock()
	run.mu.latency.hist.Reset()
	run.mu.Unlock()
	began := time.Now()
	run.pulses.mark(began)
	if !sleep.For(ctx, d) {
		return nil, context.Cause(ctx)
	}
	if err := run.awaitOne(ctx); err != nil {
		return nil, err
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	now := time.Now()
	return &calm{
		RecordsPerSecond: float64(run.mu.latency.hist.TotalCount()) / now.Sub(began).Seconds(),
		Ack:              run.mu.latency.quantiles(),
		Silence:          distributionOf(run.pulses.silences(now)),
	}, nil
}

// awaitOne waits until there is a latency to tell of.
func (run *keepers) awaitOne(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleMost)
	defer cancel()
	until(ctx, 20*time.Millisecond, func() bool {
		run.mu.Lock()
		defer run.mu.Unlock()
		return run.mu.latency.hist.TotalCount() > 0
	})
	if ctx.Err() != nil {
		return fmt.Errorf("nothing is acknowledged: %w", context.Cause(ctx))
	}
	return nil
}

// stop ends the producers, and returns how all records ended. What is still on its
// way is given up and not counted.
func (run *keepers) stop() tally {
	run.cancel()
	run.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, cl := range run.clients {
		wg.Go(func() {
			_ = cl.AbortBufferedRecords(ctx)
			cl.Close()
		})
	}
	wg.Wait()
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.mu.tally
}
