package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	quotaBytes = 10e6 // a second
	quotaTime  = 30 * time.Second
	quotaTries = 3
)

// TestQuotaShared has two producers and two consumers go as fast as they may for half a
// minute. Each pair is one user's, and comes to that user's quota together, within a tenth. Where
// the machine does other things besides they come to less, but never to more.
func TestQuotaShared(t *testing.T) {
	need(t)
	needKaas(t)
	b := startBroker(t)
	adm := kadm.NewClient(newClient(t, b.addr))
	defer adm.Close()
	if _, err := adm.CreateTopic(t.Context(), 2, -1, nil, topic); err != nil {
		t.Fatal(err)
	}
	user := "ANONYMOUS"
	rs, err := adm.AlterClientQuotas(t.Context(), []kadm.AlterClientQuotaEntry{{Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &user}}, Ops: []kadm.AlterClientQuotaOp{
		{Key: "producer_byte_rate", Value: quotaBytes}, {Key: "consumer_byte_rate", Value: quotaBytes},
	}}})
	if err != nil || rs[0].Err != nil {
		t.Fatal(err, rs)
	}
	enough := 0.5
	if os.Getenv("KAAS_E2E_EXACT") != "" {
		enough = 0.9
	}
	for try := 1; ; try++ {
		least := 1.0
		for what, n := range goFast(t, b.addr) {
			one, two := n[0].Load(), n[1].Load()
			of := float64(one+two) / quotaBytes / quotaTime.Seconds()
			t.Logf("%s: %d and %d bytes, %.3f of the quota", what, one, two, of)
			if of > 1.1 || one == 0 || two == 0 {
				t.Fatalf("%s: %d and %d bytes are %.3f of the quota", what, one, two, of)
			}
			least = min(least, of)
		}
		if least >= enough {
			return
		}
		if try == quotaTries {
			t.Fatalf("%.3f of the quota", least)
		}
	}
}

// goFast is how many bytes each of them has sent or read.
func goFast(t *testing.T, addr string) map[string]*[2]atomic.Int64 {
	ctx, cancel := context.WithTimeout(t.Context(), quotaTime)
	defer cancel()
	var sent, read [2]atomic.Int64
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { produceFor(ctx, t, addr, i, &sent[i]) })
		wg.Go(func() { consumeFor(ctx, t, addr, i, &read[i]) })
	}
	wg.Wait()
	return map[string]*[2]atomic.Int64{"produced": &sent, "consumed": &read}
}

// produceFor sends to a partition what cannot be compressed, and counts what is acknowledged.
func produceFor(ctx context.Context, t *testing.T, addr string, partition int, sent *atomic.Int64) {
	cl := newClient(t, addr, kgo.ClientID(fmt.Sprint("producer-", partition)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedBytes(4<<20))
	defer cl.Close()
	value := make([]byte, 10_000)
	_, _ = rand.Read(value)
	for ctx.Err() == nil {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(partition), Value: value}, func(_ *kgo.Record, err error) {
			if err == nil && ctx.Err() == nil {
				sent.Add(int64(len(value)))
			}
		})
	}
}

// consumeFor reads all partitions and counts what it is given.
func consumeFor(ctx context.Context, t *testing.T, addr string, i int, read *atomic.Int64) {
	cl := newClient(t, addr, kgo.ClientID(fmt.Sprint("consumer-", i)), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { read.Add(int64(len(r.Value))) })
	}
}
