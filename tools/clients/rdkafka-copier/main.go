// Command rdkafka-copier copies a topic in transactions, with librdkafka. It is of a module of
// its own, since it needs cgo and carries the library.
//
//	rdkafka-copier -bootstrap ADDRS -group G -in TOPIC -out TOPIC -id TRANSACTIONAL-ID -timeout 8s
//
// A record is copied to the partition that has the number of its own, and the offsets of what
// was read are part of the transaction. Every few transactions it writes copies that are not to
// be seen, and aborts. A transaction stays open for a while before it is ended.
//
// It tells what it is told, a line each:
//
//	refused WHY    its group does not know it any more, and what is open is aborted
//	fenced WHY     another has its place; it ends
//	again WHY      it cannot go on, and ends, to be started again
//
// It ends with code 0, for these reasons and by SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const (
	pollMillis = 100
	mostPolled = 500
	open       = 100 * time.Millisecond // stays a transaction, once its records are written, and once its offsets are sent
	abortEvery = 7
	notSeen    = "aborted " // in front of what is aborted
)

type options struct {
	bootstrap, group, in, out, id string
	timeout                       time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.bootstrap, "bootstrap", "", "`addresses` of brokers")
	flag.StringVar(&o.group, "group", "", "the group")
	flag.StringVar(&o.in, "in", "", "the topic that is read")
	flag.StringVar(&o.out, "out", "", "the topic that is written")
	flag.StringVar(&o.id, "id", "", "the transactional ID")
	flag.DurationVar(&o.timeout, "timeout", time.Minute, "of a transaction")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Println(word(err), err)
	}
}

// word says what an error is to who ends because of it.
func word(err error) string {
	var e kafka.Error
	if errors.As(err, &e) {
		switch e.Code() {
		case kafka.ErrFenced, kafka.ErrProducerFenced, kafka.ErrInvalidProducerEpoch:
			return "fenced"
		}
	}
	return "again"
}

// copier is a consumer and a producer.
type copier struct {
	options
	c     *kafka.Consumer
	p     *kafka.Producer
	meta  *kafka.ConsumerGroupMetadata // of the generation that what was polled is of
	first map[int32]kafka.Offset       // of what was polled
	next  map[int32]kafka.Offset
	batch []*kafka.Message
}

func run(o options) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	p, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": o.bootstrap, "transactional.id": o.id, "transaction.timeout.ms": int(o.timeout.Milliseconds()), "reconnect.backoff.max.ms": 500,
		"go.delivery.reports": false, "linger.ms": 5, // a commit tells what was not delivered
	})
	if err != nil {
		return err
	}
	var events sync.WaitGroup
	events.Go(func() {
		for range p.Events() { // errors of connections; it is closed with the producer
		}
	})
	defer events.Wait()
	defer p.Close()
	if err := p.InitTransactions(context.Background()); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	c, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": o.bootstrap, "group.id": o.group, "auto.offset.reset": "earliest", "enable.auto.commit": false,
		"isolation.level": "read_committed", "session.timeout.ms": 6000, "heartbeat.interval.ms": 500,
		"partition.assignment.strategy": "range", "reconnect.backoff.max.ms": 500, "fetch.wait.max.ms": 200,
	})
	if err != nil {
		return err
	}
	defer c.Close()
	m := &copier{options: o, c: c, p: p}
	m.forget()
	if err := c.Subscribe(o.in, m.rebalance); err != nil {
		return err
	}
	for n := 1; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		m.poll()
		if len(m.batch) == 0 {
			continue
		}
		if err := m.transaction(n%abortEvery == 0); err != nil {
			return err
		}
		m.forget()
	}
}

func (m *copier) forget() {
	m.first, m.next, m.batch = map[int32]kafka.Offset{}, map[int32]kafka.Offset{}, nil
}

// rebalance comes from within a poll. What was polled of partitions that are taken away is for
// others to copy. Who takes the group's word of which generation it is at any later time would
// commit what it had as a member of an earlier one.
func (m *copier) rebalance(c *kafka.Consumer, ev kafka.Event) (err error) {
	m.forget()
	switch ev.(type) {
	case kafka.AssignedPartitions:
		m.meta, err = c.GetConsumerGroupMetadata()
	case kafka.RevokedPartitions:
		if c.AssignmentLost() {
			fmt.Println("refused the group has given its partitions to another")
		}
	}
	return err
}

func (m *copier) poll() {
	wait := pollMillis
	for range mostPolled {
		msg, ok := m.c.Poll(wait).(*kafka.Message)
		if !ok || msg.TopicPartition.Error != nil {
			return // an event of another kind, or nothing
		}
		wait = 0
		p, at := msg.TopicPartition.Partition, msg.TopicPartition.Offset
		if _, had := m.first[p]; !had {
			m.first[p] = at
		}
		m.next[p], m.batch = at+1, append(m.batch, msg)
	}
}

// transaction copies what was polled. Its error is one that the client cannot go on after.
func (m *copier) transaction(abort bool) error {
	if err := m.p.BeginTransaction(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	err := m.write(abort)
	if err == nil && !abort {
		err = m.commit()
	}
	if err == nil && !abort {
		return nil
	}
	var e kafka.Error
	if errors.As(err, &e) {
		switch {
		case e.IsFatal():
			return err
		case e.Code() == kafka.ErrUnknownMemberID, e.Code() == kafka.ErrIllegalGeneration, e.Code() == kafka.ErrFencedInstanceID:
			fmt.Println("refused", err)
		}
	}
	return m.abort()
}

func (m *copier) write(abort bool) error {
	before := ""
	if abort {
		before = notSeen
	}
	for _, msg := range m.batch {
		err := m.p.Produce(&kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &m.out, Partition: msg.TopicPartition.Partition},
			Value:          append([]byte(before), msg.Value...),
		}, nil)
		if err != nil {
			return fmt.Errorf("produce: %w", err)
		}
	}
	m.p.Flush(int(open.Milliseconds()))
	<-time.After(open)
	return nil
}

// commit sends the offsets and commits, again for as long as that may help.
func (m *copier) commit() error {
	var upTo []kafka.TopicPartition
	for p, to := range m.next {
		upTo = append(upTo, kafka.TopicPartition{Topic: &m.in, Partition: p, Offset: to})
	}
	err := again(func() error { return m.p.SendOffsetsToTransaction(context.Background(), upTo, m.meta) })
	if err != nil {
		return fmt.Errorf("send offsets: %w", err)
	}
	<-time.After(open)
	if err := again(func() error { return m.p.CommitTransaction(context.Background()) }); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// abort aborts, and goes back to where the transaction began.
func (m *copier) abort() error {
	if err := again(func() error { return m.p.AbortTransaction(context.Background()) }); err != nil {
		return fmt.Errorf("abort: %w", err)
	}
	for p, at := range m.first {
		// An error says that it is another's now.
		_ = m.c.Seek(kafka.TopicPartition{Topic: &m.in, Partition: p, Offset: at}, 0)
	}
	return nil
}

func again(do func() error) error {
	for {
		err := do()
		var e kafka.Error
		if !errors.As(err, &e) || !e.IsRetriable() {
			return err
		}
		<-time.After(50 * time.Millisecond)
	}
}
