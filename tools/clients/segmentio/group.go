package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"kaas.dev/kaas/tools/clients/scenario"
)

// member is one of a group's. It takes one generation after the other until Close.
type member struct {
	s      *client
	topic  string
	cg     *kafka.ConsumerGroup
	came   chan kafka.Message
	joined sync.WaitGroup
	polled map[int]int64 // where to go on, by partition, since the last commit
	mu     struct {
		sync.Mutex
		generation *kafka.Generation
		assigned   []int32
		rebalances int
		err        error
	}
}

func (s *client) join(_ context.Context, m scenario.Membership) (scenario.Member, error) {
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: m.Group, Brokers: s.bootstrap, Topics: []string{m.Topic}, StartOffset: kafka.FirstOffset,
		SessionTimeout: 30 * time.Second, HeartbeatInterval: 100 * time.Millisecond, JoinGroupBackoff: 100 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	mem := &member{s: s, topic: m.Topic, cg: cg, came: make(chan kafka.Message), polled: map[int]int64{}}
	mem.joined.Go(mem.generations)
	return mem, nil
}

func (m *member) generations() {
	for {
		g, err := m.cg.Next(context.Background())
		if errors.Is(err, kafka.ErrGroupClosed) {
			return
		}
		m.mu.Lock()
		m.mu.generation, m.mu.err, m.mu.assigned = g, err, nil
		m.mu.rebalances++
		if err != nil {
			m.mu.Unlock()
			return
		}
		for _, a := range g.Assignments[m.topic] {
			m.mu.assigned = append(m.mu.assigned, int32(a.ID))
		}
		slices.Sort(m.mu.assigned)
		m.mu.Unlock()
		for _, a := range g.Assignments[m.topic] {
			g.Start(func(ctx context.Context) { m.read(ctx, a) })
		}
	}
}

// read reads a partition until the generation ends.
func (m *member) read(ctx context.Context, a kafka.PartitionAssignment) {
	r := m.s.reader(m.topic, a.ID)
	defer r.Close() // nothing is lost
	if err := r.SetOffset(a.Offset); err != nil {
		return
	}
	for {
		msg, err := r.ReadMessage(ctx)
		if err != nil {
			return
		}
		select {
		case m.came <- msg:
		case <-ctx.Done():
			return
		}
	}
}

func (m *member) Poll(d time.Duration) ([]scenario.Record, error) {
	var out []scenario.Record
	enough := time.After(d)
	for {
		select {
		case msg := <-m.came:
			m.polled[msg.Partition] = msg.Offset + 1
			out = append(out, incoming(msg))
		case <-enough:
			m.mu.Lock()
			defer m.mu.Unlock()
			return out, m.mu.err
		}
	}
}

func (m *member) Assigned() []int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.assigned)
}

func (m *member) Rebalances() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.rebalances
}

func (m *member) Commit() error {
	m.mu.Lock()
	g := m.mu.generation
	m.mu.Unlock()
	polled := m.polled
	m.polled = map[int]int64{}
	return g.CommitOffsets(map[string]map[int]int64{m.topic: polled})
}

func (m *member) Close() error {
	err := m.cg.Close()
	m.joined.Wait()
	return err
}
