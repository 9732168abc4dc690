package e2e

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// acks are the offsets that the broker gave to the lines, -1 where it gave none.
type acks struct {
	offsets []int64
	errs    []error
}

func TestGoProducerKilledBroker(t *testing.T) {
	need(t)
	b := startBroker(t)
	want := split(text())
	cl := newClient(t, b.addr, kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordDeliveryTimeout(2*time.Minute))
	defer cl.Close()
	done := make(chan struct{})
	var got acks
	go func() {
		defer close(done)
		got = produce(t.Context(), cl, want)
	}()
	b.killAt(done, 0.1, 0.5)
	<-done
	for _, err := range got.errs {
		t.Fatalf("%d lines were not acknowledged, the first because: %v", len(got.errs), err)
	}
	have := consume(t, b.addr)
	wantAcked(t, got, have, want)
	wantLines(t, have, want) // each once
}

// wantAcked fails unless each acknowledged line is at its offset and the offsets
// rise as the lines do.
func wantAcked(t *testing.T, got acks, have, want [][]byte) {
	t.Helper()
	last := int64(-1)
	for i, off := range got.offsets {
		switch {
		case off < 0:
			continue
		case off >= int64(len(have)) || !bytes.Equal(have[off], want[i]):
			t.Fatalf("line %d was acknowledged at offset %d, which does not hold it", i, off)
		case off <= last:
			t.Fatalf("line %d was acknowledged at offset %d, the line before at %d", i, off, last)
		}
		last = off
	}
}

// produce sends the lines as an idempotent producer and returns their acks.
func produce(ctx context.Context, cl *kgo.Client, lines [][]byte) acks {
	a := acks{offsets: make([]int64, len(lines))}
	for i, l := range lines {
		cl.Produce(ctx, &kgo.Record{Value: l}, func(r *kgo.Record, err error) {
			a.offsets[i] = r.Offset // promises are called one after the other
			if err != nil {
				a.offsets[i] = -1
				a.errs = append(a.errs, err)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		a.errs = append(a.errs, err)
	}
	return a
}

// consume reads the topic from its beginning to its end; the index of a value is
// its offset.
func consume(t *testing.T, addr string) [][]byte {
	t.Helper()
	cl := newClient(t, addr, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	end := awaitEnd(ctx, kadm.NewClient(cl))
	if end < 0 {
		t.Fatal("the topic's end cannot be told")
	}
	var out [][]byte
	for int64(len(out)) < end {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("fetch at offset %d of %d: %v", len(out), end, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if r.Offset != int64(len(out)) {
				t.Fatalf("got offset %d where %d is next", r.Offset, len(out))
			}
			out = append(out, r.Value)
		})
	}
	return out
}
