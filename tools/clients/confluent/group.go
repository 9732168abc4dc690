package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"kaas.dev/kaas/tools/clients/scenario"
)

// member is one of a group's. Callbacks come from within its Poll.
type member struct {
	c          *kafka.Consumer
	assigned   []int32
	rebalances int
}

func (s *client) join(_ context.Context, m scenario.Membership) (scenario.Member, error) {
	conf := kafka.ConfigMap{
		"group.id": m.Group, "enable.auto.commit": false, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100,
	}
	if m.Instance != "" {
		conf["group.instance.id"] = m.Instance
	}
	if m.Consumer {
		conf["group.protocol"] = "consumer"
	} else {
		conf["session.timeout.ms"], conf["heartbeat.interval.ms"] = 30_000, 100
	}
	c, err := kafka.NewConsumer(s.config(conf))
	if err != nil {
		return nil, err
	}
	mem := &member{c: c}
	return mem, c.Subscribe(m.Topic, mem.rebalance)
}

func (m *member) rebalance(_ *kafka.Consumer, ev kafka.Event) error {
	var given, taken []kafka.TopicPartition
	switch e := ev.(type) {
	case kafka.AssignedPartitions:
		given = e.Partitions
	case kafka.RevokedPartitions:
		taken = e.Partitions
	}
	for _, p := range given {
		m.assigned = append(m.assigned, p.Partition)
	}
	for _, p := range taken {
		m.assigned = slices.DeleteFunc(m.assigned, func(had int32) bool { return had == p.Partition })
	}
	slices.Sort(m.assigned)
	if len(given)+len(taken) > 0 {
		m.rebalances++
	}
	return nil // the client does as it was told
}

func (m *member) Poll(d time.Duration) ([]scenario.Record, error) {
	var out []scenario.Record
	deadline := time.Now().Add(d)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return out, nil
		}
		switch e := m.c.Poll(int(left.Milliseconds())).(type) {
		case *kafka.Message:
			out = append(out, incoming(e))
		case kafka.Error:
			return out, e
		}
	}
}

func (m *member) Assigned() []int32 { return slices.Clone(m.assigned) }

func (m *member) Rebalances() int { return m.rebalances }

func (m *member) Commit() error {
	_, err := m.c.Commit()
	var ke kafka.Error
	if errors.As(err, &ke) && ke.Code() == kafka.ErrNoOffset { // nothing was polled
		return nil
	}
	return err
}

func (m *member) Close() error { return m.c.Close() }
