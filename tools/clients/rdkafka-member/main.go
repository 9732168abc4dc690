// Command rdkafka-member is one member of a consumer group, made with librdkafka. It is of a
// module of its own, since it needs cgo and carries the library.
//
//	rdkafka-member -bootstrap ADDRS -group G -topic T -protocol classic|consumer [-strategy range]
//
// It processes what it polls, then commits that, and tells what happens to it on standard
// output, a line each: a word, the time in nanoseconds since 1970, and numbers.
//
//	assigned TIME PARTITION…            it was given partitions; it asks then where to begin
//	revoked TIME PARTITION…             it gives partitions up
//	lost TIME PARTITION…                the same, and others may have had them already
//	processed TIME PARTITION FIRST N    it has processed N records from offset FIRST on
//	committing TIME PARTITION OFFSET    it commits
//	committed TIME PARTITION            and that was acknowledged
//	uncertain TIME PARTITION            and that was not
//
// SIGTERM has it leave the group; it ends with code 0 then.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func main() {
	var o options
	flag.StringVar(&o.bootstrap, "bootstrap", "", "`addresses` of brokers")
	flag.StringVar(&o.group, "group", "", "the group")
	flag.StringVar(&o.topic, "topic", "", "the topic")
	flag.StringVar(&o.protocol, "protocol", "classic", "classic or consumer")
	flag.StringVar(&o.strategy, "strategy", "cooperative-sticky", "of the classic protocol")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "rdkafka-member:", err)
		os.Exit(1)
	}
}

type options struct{ bootstrap, group, topic, protocol, strategy string }

func (o options) config() *kafka.ConfigMap {
	c := kafka.ConfigMap{
		"bootstrap.servers": o.bootstrap, "group.id": o.group, "group.protocol": o.protocol,
		"auto.offset.reset": "earliest", "enable.auto.commit": false, "enable.auto.offset.store": false,
		"topic.metadata.refresh.interval.ms": 5000, "reconnect.backoff.max.ms": 500, "fetch.wait.max.ms": 200,
	}
	if o.protocol == "consumer" {
		c["max.poll.interval.ms"] = 45_000 // to give partitions up, too; it may be no less
	}
	if o.protocol == "classic" {
		c["session.timeout.ms"], c["heartbeat.interval.ms"], c["partition.assignment.strategy"] = 6000, 500, o.strategy
	}
	return &c
}

// member is the consumer and what it tells. Callbacks come from within its Poll.
type member struct {
	c           *kafka.Consumer
	topic       string
	out         *bufio.Writer
	first, next map[int32]kafka.Offset // of what was polled and is not yet processed
}

func run(o options) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	c, err := kafka.NewConsumer(o.config())
	if err != nil {
		return err
	}
	m := &member{c: c, topic: o.topic, out: bufio.NewWriter(os.Stdout)}
	m.forget()
	if err := c.Subscribe(o.topic, m.rebalance); err != nil {
		return err
	}
	for {
		select {
		case <-stop:
			err := c.Close()
			return firstOf(err, m.out.Flush())
		default:
		}
		if err := m.once(); err != nil {
			return err
		}
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	pollMillis = 100
	mostPolled = 200
)

// once polls, processes and commits.
func (m *member) once() error {
	wait := pollMillis
	for range mostPolled {
		msg, ok := m.c.Poll(wait).(*kafka.Message)
		if !ok || msg.TopicPartition.Error != nil {
			break // an event of another kind, or nothing
		}
		at, p := msg.TopicPartition.Offset, msg.TopicPartition.Partition
		if _, had := m.first[p]; !had {
			m.first[p] = at
		} else if at != m.next[p] { // something lies between
			m.tell("processed", p, int64(m.first[p]), int64(m.next[p]-m.first[p]))
			m.first[p] = at
		}
		m.next[p], wait = at+1, 0
	}
	m.finish()
	return m.out.Flush()
}

func (m *member) forget() { m.first, m.next = map[int32]kafka.Offset{}, map[int32]kafka.Offset{} }

// finish processes what was polled, and commits it.
func (m *member) finish() {
	var upTo []kafka.TopicPartition
	for p, to := range m.next {
		m.tell("processed", p, int64(m.first[p]), int64(to-m.first[p]))
		upTo = append(upTo, kafka.TopicPartition{Topic: &m.topic, Partition: p, Offset: to})
	}
	m.forget()
	if len(upTo) > 0 {
		m.commit(upTo)
	}
}

// commit commits. What is not acknowledged is processed again by whoever has the partition
// next.
func (m *member) commit(upTo []kafka.TopicPartition) {
	for _, p := range upTo {
		m.tell("committing", p.Partition, int64(p.Offset))
	}
	_ = m.out.Flush() // the next one returns its error, too
	done, err := m.c.CommitOffsets(upTo)
	if err != nil {
		done = upTo
	}
	for _, p := range done {
		word := "committed"
		if err != nil || p.Error != nil {
			fmt.Fprintln(os.Stderr, "commit:", err, p)
			word = "uncertain"
		}
		m.tell(word, p.Partition)
	}
}

func (m *member) rebalance(c *kafka.Consumer, ev kafka.Event) error {
	switch e := ev.(type) {
	case kafka.AssignedPartitions:
		m.tellAll("assigned", e.Partitions)
	case kafka.RevokedPartitions: // what was polled of them is committed now or never
		word := "revoked"
		if c.AssignmentLost() {
			m.forget()
			word = "lost"
		} else {
			m.finish()
		}
		m.tellAll(word, e.Partitions)
	}
	return nil // the client does as it was told
}

func (m *member) tell(word string, partition int32, about ...int64) {
	fmt.Fprint(m.out, word, " ", time.Now().UnixNano(), " ", partition)
	for _, n := range about {
		fmt.Fprint(m.out, " ", n)
	}
	fmt.Fprintln(m.out)
}

func (m *member) tellAll(word string, parts []kafka.TopicPartition) {
	fmt.Fprint(m.out, word, " ", time.Now().UnixNano())
	for _, p := range parts {
		fmt.Fprint(m.out, " ", p.Partition)
	}
	fmt.Fprintln(m.out)
}
