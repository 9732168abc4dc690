package partition

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/internal/sleep"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/internal/substrate/nfssim/sweep"
)

// simClient is an idempotent producer that outlives brokers. It has at most five batches
// without an answer, and sends them again, in order, to whoever leads.
type simClient struct {
	id       int64
	batches  []clientBatch
	answered int  // so many were acknowledged
	sent     int  // so many were sent once
	busy     bool // with one leader
}

type clientBatch struct {
	sequence int32
	values   []string
}

// firstSequence makes the clients come past the end of sequences.
const firstSequence = math.MaxInt32 - 20

// batch is the client's n-th, made when it is first asked for.
func (c *simClient) batch(n int, rng *rand.Rand) clientBatch {
	if n == len(c.batches) {
		b := clientBatch{sequence: firstSequence}
		if n > 0 {
			last := c.batches[n-1]
			b.sequence = int32((int64(last.sequence) + int64(len(last.values))) & math.MaxInt32)
		}
		for r := range 1 + rng.IntN(3) {
			b.values = append(b.values, fmt.Sprintf("client%d.%d.%d", c.id, n, r))
		}
		c.batches = append(c.batches, b)
	}
	return c.batches[n]
}

// takeClient returns a client that talks to nobody else, or nil.
func (w *world) takeClient() *simClient {
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	for _, c := range w.clients {
		if !c.busy {
			c.busy = true
			return c
		}
	}
	return nil
}

// produceOnce has a client produce through a leader until one of them has had enough.
func (b *simBroker) produceOnce(ctx context.Context, p *Partition, c *simClient, rng *rand.Rand) {
	o := b.w.o
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		c.busy = false
	}()
	for range 1 + rng.IntN(8) {
		sleep.For(ctx, time.Duration(rng.IntN(300))*time.Millisecond+time.Duration(c.id)*7*time.Nanosecond)
		if ctx.Err() != nil || p.Err() != nil {
			return
		}
		b.sendFlight(ctx, p, c, rng)
	}
}

// sendFlight sends up to five batches, the unanswered first, and waits for each, but not
// for ever.
func (b *simBroker) sendFlight(ctx context.Context, p *Partition, c *simClient, rng *rand.Rand) {
	o := b.w.o
	type pending struct {
		*Appended
		before int64
		values []string
	}
	var flight []pending
	for n, end := c.answered, c.answered+1+rng.IntN(5); n < end; n++ {
		sleep.For(ctx, time.Microsecond) // the writer that the first one starts must not race with the second
		x := c.batch(n, rng)
		o.mu.Lock()
		before := o.acked
		if n < c.sent {
			before = 0 // it may be there already
			o.Again++
		}
		o.mu.Unlock()
		a, err := p.Append(ctx, b.w.idem(c.id, x.sequence, x.values))
		if err != nil {
			b.refused(ctx, p, c, x, err)
			break
		}
		c.sent = max(c.sent, n+1)
		flight = append(flight, pending{a, before, x.values})
	}
	wait, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(2000))*time.Millisecond)
	defer cancel()
	for _, x := range flight {
		if ctx.Err() != nil {
			return // what was committed long ago, a dead process hears or not
		}
		err := x.Wait(wait)
		b.count(err)
		if err != nil {
			return
		}
		o.mu.Lock()
		o.ack(b.name, p.LeaderEpoch(), x.before, x.BaseOffset, x.values)
		o.mu.Unlock()
		c.answered++
	}
}

// refused: a client that keeps to the rules is never told that it did not, by who leads.
// Who stood still and was replaced does not know what was stored since; the server answers
// such a refusal only after a Check.
func (b *simBroker) refused(ctx context.Context, p *Partition, c *simClient, x clientBatch, err error) {
	b.count(err)
	if p.s.Check(ctx) != nil {
		return
	}
	if errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.InvalidProducerEpoch) {
		b.w.o.mu.Lock()
		defer b.w.o.mu.Unlock()
		b.w.o.violate("%s refuses client %d's sequence %d: %w", b.name, c.id, x.sequence, err)
	}
}

// wantOnce compares what is in the log with what the clients sent: each batch once, in
// order, none left out, and all that were acknowledged.
func (w *world) wantOnce(log []string) {
	for _, c := range w.clients {
		n, want := 0, []string{}
		for i, x := range c.batches {
			if want = append(want, x.values...); i < c.answered {
				n = len(want)
			}
		}
		var got []string
		for _, v := range log {
			if strings.HasPrefix(v, fmt.Sprintf("client%d.", c.id)) {
				got = append(got, v)
			}
		}
		for i, v := range got {
			if i >= len(want) || v != want[i] {
				w.o.violate("client %d's record %d is %q in the log, sent were %q", c.id, i, v, want)
				return
			}
		}
		if len(got) < n {
			w.o.violate("client %d has %d records in the log, %d were acknowledged", c.id, len(got), n)
		}
	}
}

// TestSweepCatchesProducers takes away what a takeover knows of producers.
func TestSweepCatchesProducers(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for name, b := range map[string]breaks{
		"the manifest's producers are forgotten": {noProducerSnapshot: true},
		"the tail's producers are left out":      {noProducerScan: true},
		"the manifest is ahead of the log":       {snapshotAhead: true},
	} {
		t.Run(name, func(t *testing.T) {
			sweep.Catches(t, 3000, func(seed int64) error {
				_, err := simulate(t, seed, b, substrate.Breaks{})
				return err
			})
		})
	}
}
