// Command sarama runs the scenarios of package scenario with Sarama.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"kaas.dev/kaas/tools/clients/scenario"
)

func main() { scenario.Main(open) }

// client makes Sarama's; the admin client serves all the time.
type client struct {
	bootstrap []string
	way       func(*sarama.Config) // to get in
	adm       sarama.ClusterAdmin
	cl        sarama.Client
}

func open(to scenario.Brokers) (*scenario.Client, error) {
	s := &client{bootstrap: to.Addrs, way: func(*sarama.Config) {}}
	if to.Way != nil {
		var err error
		if s.way, err = secured(to.Way); err != nil {
			return nil, err
		}
	}
	cl, err := sarama.NewClient(to.Addrs, s.config())
	if err != nil {
		return nil, err
	}
	adm, err := sarama.NewClusterAdminFromClient(cl)
	if err != nil {
		return nil, err
	}
	s.adm, s.cl = adm, cl
	c := &scenario.Client{Name: "sarama", Code: code, Produce: s.produce, Fetch: s.fetch, Join: s.join, Transactor: s.transactor}
	c.Skip = map[string]string{"group consumer": "Sarama has the classic protocol only"}
	s.admin(c)
	return c, nil
}

func (s *client) config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Producer.Return.Successes = true
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Metadata.AllowAutoTopicCreation = false
	s.way(c)
	return c
}

// code looks into all that the error wraps.
func code(err error) int16 {
	var several sarama.ProducerErrors
	if errors.As(err, &several) {
		err = several[0]
	}
	if errors.Is(err, sarama.ErrSASLAuthenticationFailed) { // which does not say that it is one
		return 58
	}
	var ke sarama.KError
	if errors.As(err, &ke) {
		return int16(ke)
	}
	return 0
}

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func (s *client) produce(_ context.Context, to scenario.Target, records []scenario.Record) error {
	c := s.config()
	c.Producer.Compression = codecs[to.Codec]
	if to.Idempotent {
		c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	}
	p, err := sarama.NewSyncProducer(s.bootstrap, c)
	if err != nil {
		return err
	}
	err = p.SendMessages(outgoing(to.Topic, to.Partition, records))
	return errors.Join(err, p.Close())
}

func outgoing(topic string, partition int32, records []scenario.Record) []*sarama.ProducerMessage {
	var out []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{Topic: topic, Partition: partition, Timestamp: r.Time}
		if r.Key != nil {
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		out = append(out, m)
	}
	return out
}

func incoming(m *sarama.ConsumerMessage) scenario.Record {
	r := scenario.Record{Key: m.Key, Value: m.Value, Time: m.Timestamp, Partition: m.Partition, Offset: m.Offset}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, scenario.Header{Key: string(h.Key), Value: h.Value})
	}
	return r
}

func (s *client) fetch(ctx context.Context, topic string, partition int32, want int, committed bool) ([]scenario.Record, error) {
	conf := s.config()
	if committed {
		conf.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	c, err := sarama.NewConsumer(s.bootstrap, conf)
	if err != nil {
		return nil, err
	}
	defer c.Close() // nothing is lost
	p, err := c.ConsumePartition(topic, partition, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var out []scenario.Record
	noMore := make(<-chan time.Time)
	for {
		if len(out) >= want {
			noMore = time.After(scenario.NoMore)
		}
		select {
		case m := <-p.Messages():
			out = append(out, incoming(m))
		case <-noMore:
			return out, nil
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
}

// transactor is a producer of transactions.
type transactor struct {
	p sarama.SyncProducer
}

func (s *client) transactor(_ context.Context, id string) (scenario.Transactor, error) {
	c := s.config()
	c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.Transaction.ID = true, 1, id
	p, err := sarama.NewSyncProducer(s.bootstrap, c)
	return transactor{p}, err
}

func (t transactor) Begin() error { return t.p.BeginTxn() }

func (t transactor) Produce(_ context.Context, topic string, partition int32, records []scenario.Record) error {
	return t.p.SendMessages(outgoing(topic, partition, records))
}

func (t transactor) Offsets(_ context.Context, group, topic string, partition int32, offset int64) error {
	return t.p.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: partition, Offset: offset, LeaderEpoch: -1}}}, group)
}

func (t transactor) End(_ context.Context, commit bool) error {
	if commit {
		return t.p.CommitTxn()
	}
	return t.p.AbortTxn()
}

func (t transactor) Close() { _ = t.p.Close() } // one that was fenced says so again
