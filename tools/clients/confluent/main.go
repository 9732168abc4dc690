// Command confluent runs the scenarios of package scenario with librdkafka, by way of
// confluent-kafka-go.
package main

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"kaas.dev/kaas/tools/clients/scenario"
)

func main() {
	scenario.Steady = steady
	scenario.Main(open)
}

// client makes confluent-kafka-go's; the admin client serves all the time.
type client struct {
	bootstrap string
	way       way
	adm       *kafka.AdminClient
}

func open(to scenario.Brokers) (*scenario.Client, error) {
	s := &client{bootstrap: strings.Join(to.Addrs, ",")}
	var err error
	if to.Way != nil {
		if s.way, err = secured(to.Way); err != nil {
			return nil, err
		}
		if err := s.getIn(); err != nil {
			return nil, err
		}
	}
	if s.adm, err = kafka.NewAdminClient(s.config(nil)); err != nil {
		return nil, err
	}
	if err := s.way.bring(s.adm); err != nil {
		return nil, err
	}
	c := &scenario.Client{Name: "confluent", Code: code, Produce: s.produce, Fetch: s.fetch, Join: s.join, Transactor: s.transactor}
	c.Skip = map[string]string{"delete group offsets": "it does not have the request"}
	s.admin(c)
	return c, nil
}

func (s *client) config(more kafka.ConfigMap) *kafka.ConfigMap {
	c := kafka.ConfigMap{
		"bootstrap.servers": s.bootstrap, "topic.metadata.refresh.interval.ms": 1000, "reconnect.backoff.max.ms": 500,
	}
	maps.Copy(c, s.way.conf)
	maps.Copy(c, more)
	return &c
}

func code(err error) int16 {
	var ke kafka.Error
	if !errors.As(err, &ke) {
		return 0
	}
	switch ke.Code() { // the client's own codes
	case kafka.ErrFenced:
		return 90
	case kafka.ErrAuthentication:
		return 58
	}
	return int16(ke.Code())
}

func (s *client) produce(_ context.Context, to scenario.Target, records []scenario.Record) error {
	p, err := kafka.NewProducer(s.config(kafka.ConfigMap{
		"compression.type": to.Codec, "linger.ms": 5, "enable.idempotence": to.Idempotent, "acks": "all",
	}))
	if err != nil {
		return err
	}
	defer p.Close()
	if err := s.way.bring(p); err != nil {
		return err
	}
	return send(p, to.Topic, to.Partition, records)
}

// send produces, and waits for all reports.
func send(p *kafka.Producer, topic string, partition int32, records []scenario.Record) error {
	reports := make(chan kafka.Event, len(records))
	for _, r := range records {
		m := &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: partition},
			Key:            r.Key, Value: r.Value, Timestamp: r.Time,
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		if err := p.Produce(m, reports); err != nil {
			return err
		}
	}
	for range records {
		if err := (<-reports).(*kafka.Message).TopicPartition.Error; err != nil {
			return err
		}
	}
	return nil
}

func incoming(m *kafka.Message) scenario.Record {
	r := scenario.Record{
		Key: m.Key, Value: m.Value, Time: m.Timestamp, Partition: m.TopicPartition.Partition, Offset: int64(m.TopicPartition.Offset),
	}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, scenario.Header{Key: h.Key, Value: h.Value})
	}
	return r
}

func (s *client) fetch(_ context.Context, topic string, partition int32, want int, committed bool) ([]scenario.Record, error) {
	level := "read_uncommitted"
	if committed {
		level = "read_committed"
	}
	c, err := kafka.NewConsumer(s.config(kafka.ConfigMap{
		"group.id": "unused", "enable.auto.commit": false, "isolation.level": level, "fetch.wait.max.ms": 100,
	}))
	if err != nil {
		return nil, err
	}
	defer c.Close() // nothing is lost
	if err := s.way.bring(c); err != nil {
		return nil, err
	}
	err = c.Assign([]kafka.TopicPartition{{Topic: &topic, Partition: partition, Offset: kafka.OffsetBeginning}})
	if err != nil {
		return nil, err
	}
	var out []scenario.Record
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		switch e := c.Poll(int(scenario.NoMore.Milliseconds())).(type) {
		case *kafka.Message:
			out = append(out, incoming(e))
		case kafka.Error:
			return out, e
		case nil:
			if len(out) >= want {
				return out, nil
			}
		}
	}
	return out, errors.New("not all records came in time")
}

// transactor is a producer of transactions.
type transactor struct {
	p *kafka.Producer
}

func (s *client) transactor(ctx context.Context, id string) (scenario.Transactor, error) {
	p, err := kafka.NewProducer(s.config(kafka.ConfigMap{"transactional.id": id, "linger.ms": 5}))
	if err != nil {
		return nil, err
	}
	return transactor{p}, p.InitTransactions(ctx)
}

func (t transactor) Begin() error { return t.p.BeginTransaction() }

func (t transactor) Produce(_ context.Context, topic string, partition int32, records []scenario.Record) error {
	return send(t.p, topic, partition, records)
}

// Offsets makes the group's metadata anew: there is no consumer that is a member.
func (t transactor) Offsets(ctx context.Context, group, topic string, partition int32, offset int64) error {
	meta, err := kafka.NewTestConsumerGroupMetadata(group)
	if err != nil {
		return err
	}
	at := []kafka.TopicPartition{{Topic: &topic, Partition: partition, Offset: kafka.Offset(offset)}}
	return t.p.SendOffsetsToTransaction(ctx, at, meta)
}

func (t transactor) End(ctx context.Context, commit bool) error {
	if commit {
		return t.p.CommitTransaction(ctx)
	}
	return t.p.AbortTransaction(ctx)
}

func (t transactor) Close() { t.p.Close() }
