package main

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/internal/sleep"
)

// sent is a record on its way, and when it was due. It is its record's Context,
// which is the one field that comes back with the acknowledgement untouched.
type sent struct {
	context.Context
	record kgo.Record
	due    time.Time
}

// epoch is what stamps in values are relative to. Only this process reads them.
var epoch = time.Now()

const stampBytes = 8

// generator makes records. Their values are text of 64 letters in random order,
// of which a codec saves about a quarter.
type generator struct {
	topic   string
	values  [][]byte
	slab    []sent
	n       int
	stamped bool // each value is its own and begins with when it was due
}

const differentValues = 64

func newGenerator(topic string, size int, seed uint64, stamped bool) *generator {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	g := &generator{topic: topic, stamped: stamped}
	random := rand.New(rand.NewPCG(seed, 1))
	for range differentValues {
		v := make([]byte, size)
		for i := range v {
			v[i] = letters[random.IntN(len(letters))]
		}
		g.values = append(g.values, v)
	}
	return g
}

// next is a record that is due at due.
func (g *generator) next(due time.Time) *kgo.Record {
	if len(g.slab) == 0 {
		g.slab = make([]sent, 256)
	}
	s := &g.slab[0]
	g.slab = g.slab[1:]
	value := g.values[g.n%differentValues]
	g.n++
	if g.stamped {
		value = append([]byte(nil), value...)
		binary.BigEndian.PutUint64(value, uint64(due.Sub(epoch)))
	}
	s.Context, s.due = context.Background(), due
	s.record = kgo.Record{Topic: g.topic, Value: value, Context: s}
	return &s.record
}

// dueOf tells when a record that next made was due.
func dueOf(r *kgo.Record) time.Time { return r.Context.(*sent).due }

// stampOf tells the same from the value of a stamped record.
func stampOf(value []byte) (time.Time, bool) {
	if len(value) < stampBytes {
		return time.Time{}, false
	}
	return epoch.Add(time.Duration(binary.BigEndian.Uint64(value))), true
}

// pacer says when records are due. Without an interval that is at once.
type pacer struct {
	next     time.Time
	interval time.Duration
}

func newPacer(start time.Time, perSecond float64) *pacer {
	p := &pacer{next: start}
	if perSecond > 0 {
		p.interval = time.Duration(float64(time.Second) / perSecond)
	}
	return p
}

// due waits until the next record is due, and returns when that is. It never
// skips: what a stall held up is due in the past.
func (p *pacer) due(ctx context.Context) (time.Time, error) {
	if p.interval == 0 {
		return time.Now(), ctx.Err()
	}
	due := p.next
	p.next = due.Add(p.interval)
	wait := time.Until(due)
	if wait > 0 {
		sleep.For(ctx, wait)
	}
	return due, ctx.Err()
}
