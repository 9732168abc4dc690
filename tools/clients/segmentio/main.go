// Command segmentio runs the scenarios of package scenario with segmentio/kafka-go.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"

	"kaas.dev/kaas/tools/clients/scenario"
)

func main() { scenario.Main(open) }

// client makes kafka-go's; the admin client serves all the time.
type client struct {
	bootstrap []string
	transport *kafka.Transport
	adm       *kafka.Client
}

func open(to scenario.Brokers) (*scenario.Client, error) {
	if to.Way != nil {
		return nil, errors.New("no security here")
	}
	bootstrap := to.Addrs
	t := &kafka.Transport{MetadataTTL: 100 * time.Millisecond}
	s := &client{bootstrap: bootstrap, transport: t, adm: &kafka.Client{Addr: kafka.TCP(bootstrap...), Timeout: 10 * time.Second, Transport: t}}
	c := &scenario.Client{Name: "segmentio", NullIsEmpty: true, Code: code, Produce: s.produce, Fetch: s.fetch, Join: s.join, Transactor: s.transactor}
	c.Skip = map[string]string{
		"idempotent":     "its writer has no producer ID",
		"group static":   "its groups have no static members",
		"group consumer": "it has the classic protocol only",
		"delete records": "it does not have the request",
		// Its readers know of no control batches, and drop the list of what was aborted.
		"read committed":   "its readers give markers and aborted records out as records",
		"read uncommitted": "its readers give markers out as records",
	}
	s.admin(c)
	return c, nil
}

// code looks into all that the error wraps.
func code(err error) int16 {
	var several kafka.WriteErrors
	if errors.As(err, &several) {
		err = several[0]
	}
	var ke kafka.Error
	if errors.As(err, &ke) {
		return int16(ke)
	}
	return 0
}

var codecs = map[string]kafka.Compression{
	"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
}

func (s *client) produce(ctx context.Context, to scenario.Target, records []scenario.Record) error {
	w := &kafka.Writer{
		Addr: kafka.TCP(s.bootstrap...), Topic: to.Topic, RequiredAcks: kafka.RequireAll, Compression: codecs[to.Codec], Transport: s.transport,
		BatchTimeout: 5 * time.Millisecond,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return int(to.Partition) }),
	}
	var out []kafka.Message
	for _, r := range records {
		m := kafka.Message{Key: r.Key, Value: r.Value, Time: r.Time}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		out = append(out, m)
	}
	err := w.WriteMessages(ctx, out...)
	return errors.Join(err, w.Close())
}

func incoming(m kafka.Message) scenario.Record {
	r := scenario.Record{Key: m.Key, Value: m.Value, Time: m.Time, Partition: int32(m.Partition), Offset: m.Offset}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, scenario.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

func (s *client) reader(topic string, partition int) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{Brokers: s.bootstrap, Topic: topic, Partition: partition, MaxWait: 100 * time.Millisecond})
}

func (s *client) fetch(ctx context.Context, topic string, partition int32, want int, _ bool) ([]scenario.Record, error) {
	r := s.reader(topic, int(partition))
	defer r.Close() // nothing is lost
	var out []scenario.Record
	for len(out) < want {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return out, err
		}
		out = append(out, incoming(m))
	}
	short, cancel := context.WithTimeout(ctx, scenario.NoMore)
	defer cancel()
	if m, err := r.ReadMessage(short); err == nil {
		out = append(out, incoming(m))
	}
	return out, nil
}
