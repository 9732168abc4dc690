// Command franz runs the scenarios of package scenario with franz-go.
package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/clients/scenario"
)

func main() { scenario.Main(open) }

// franz makes clients; the admin client serves all the time.
type franz struct {
	bootstrap []string
	way       []kgo.Opt // to get in
	adm       *kadm.Client
}

func open(to scenario.Brokers) (*scenario.Client, error) {
	f := &franz{bootstrap: to.Addrs}
	if to.Way != nil {
		var err error
		if f.way, err = secured(to.Way); err != nil {
			return nil, err
		}
	}
	cl, err := f.client()
	if err != nil {
		return nil, err
	}
	if to.Way != nil {
		if err := cl.Ping(context.Background()); err != nil {
			return nil, err
		}
	}
	f.adm = kadm.NewClient(cl)
	c := &scenario.Client{Name: "franz", Code: code, Produce: f.produce, Fetch: f.fetch, Join: f.join, Transactor: f.transactor}
	f.admin(c)
	return c, nil
}

func (f *franz) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(f.bootstrap...), kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond),
	}, slices.Concat(f.way, opts)...)...)
}

func code(err error) int16 {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Code
	}
	return 0
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (f *franz) produce(ctx context.Context, to scenario.Target, records []scenario.Record) error {
	opts := []kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codecs[to.Codec]), kgo.ProducerLinger(5 * time.Millisecond),
	}
	if !to.Idempotent {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	cl, err := f.client(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	return cl.ProduceSync(ctx, outgoing(to.Topic, to.Partition, records)...).FirstErr()
}

func outgoing(topic string, partition int32, records []scenario.Record) []*kgo.Record {
	var out []*kgo.Record
	for _, r := range records {
		k := &kgo.Record{Topic: topic, Partition: partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		out = append(out, k)
	}
	return out
}

func incoming(k *kgo.Record) scenario.Record {
	r := scenario.Record{Key: k.Key, Value: k.Value, Time: k.Timestamp, Partition: k.Partition, Offset: k.Offset}
	for _, h := range k.Headers {
		r.Headers = append(r.Headers, scenario.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

func (f *franz) fetch(ctx context.Context, topic string, partition int32, want int, committed bool) ([]scenario.Record, error) {
	level := kgo.ReadUncommitted()
	if committed {
		level = kgo.ReadCommitted()
	}
	cl, err := f.client(kgo.FetchIsolationLevel(level), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var out []scenario.Record
	for len(out) < want {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return out, err
		}
		fs.EachRecord(func(k *kgo.Record) { out = append(out, incoming(k)) })
	}
	short, cancel := context.WithTimeout(ctx, scenario.NoMore)
	defer cancel()
	cl.PollFetches(short).EachRecord(func(k *kgo.Record) { out = append(out, incoming(k)) })
	return out, nil
}

// transactor is a producer of transactions.
type transactor struct {
	cl *kgo.Client
}

func (f *franz) transactor(_ context.Context, id string) (scenario.Transactor, error) {
	cl, err := f.client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	return transactor{cl}, err
}

func (t transactor) Begin() error { return t.cl.BeginTransaction() }

func (t transactor) Produce(ctx context.Context, topic string, partition int32, records []scenario.Record) error {
	return t.cl.ProduceSync(ctx, outgoing(topic, partition, records)...).FirstErr()
}

func (t transactor) Offsets(ctx context.Context, group, topic string, partition int32, offset int64) error {
	return txnOffsets(ctx, t.cl, group, topic, partition, offset)
}

func (t transactor) End(ctx context.Context, commit bool) error {
	return t.cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

func (t transactor) Close() { t.cl.Close() }
