package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"kaas.dev/kaas/tools/clients/scenario"
)

// member is one of a group's: the handler of its sessions, which are joined one after the
// other until Close.
type member struct {
	cg     sarama.ConsumerGroup
	came   chan *sarama.ConsumerMessage
	stop   context.CancelFunc
	joined sync.WaitGroup
	polled []*sarama.ConsumerMessage // since the last commit
	mu     struct {
		sync.Mutex
		session    sarama.ConsumerGroupSession // nil between sessions
		assigned   []int32
		rebalances int
		err        error
	}
}

func (s *client) join(_ context.Context, m scenario.Membership) (scenario.Member, error) {
	c := s.config()
	c.Consumer.Group.InstanceId = m.Instance
	c.Consumer.Group.Session.Timeout = 30 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	c.Consumer.Group.Rebalance.Retry.Backoff = 100 * time.Millisecond
	c.Consumer.Offsets.AutoCommit.Enable = false
	cg, err := sarama.NewConsumerGroup(s.bootstrap, m.Group, c)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	mem := &member{cg: cg, came: make(chan *sarama.ConsumerMessage), stop: stop}
	mem.joined.Go(func() {
		for ctx.Err() == nil {
			if err := cg.Consume(ctx, []string{m.Topic}, mem); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				mem.failed(err)
				return
			}
		}
	})
	return mem, nil
}

func (m *member) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.err = err
}

// Setup, Cleanup and ConsumeClaim are called in each session.
func (m *member) Setup(s sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.session = s
	m.mu.rebalances++
	for _, ps := range s.Claims() {
		m.mu.assigned = slices.Sorted(slices.Values(ps))
	}
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.session, m.mu.assigned = nil, nil
	return nil
}

func (m *member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for msg := range claim.Messages() {
		select {
		case m.came <- msg:
		case <-s.Context().Done():
			return nil
		}
	}
	return nil
}

func (m *member) Poll(d time.Duration) ([]scenario.Record, error) {
	var out []scenario.Record
	enough := time.After(d)
	for {
		select {
		case msg := <-m.came:
			m.polled = append(m.polled, msg)
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
	s := m.mu.session
	m.mu.Unlock()
	if s == nil {
		return errors.New("commit between two sessions")
	}
	for _, msg := range m.polled {
		s.MarkMessage(msg, "")
	}
	m.polled = nil
	s.Commit() // errors stand in the log; who reads the group next would see them
	return nil
}

func (m *member) Close() error {
	m.stop()
	m.joined.Wait()
	return m.cg.Close()
}
