package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kaas.dev/kaas/tools/clients/scenario"
)

// member is one of a group's.
type member struct {
	cl     *kgo.Client
	static bool
	mu     struct {
		sync.Mutex
		assigned   []int32
		rebalances int
	}
}

func (f *franz) join(_ context.Context, m scenario.Membership) (scenario.Member, error) {
	mem := &member{static: m.Instance != ""}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(m.Group), kgo.ConsumeTopics(m.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(30 * time.Second), kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { mem.given(ps[m.Topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { mem.taken(ps[m.Topic]) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, ps map[string][]int32) { mem.taken(ps[m.Topic]) }),
	}
	if mem.static {
		opts = append(opts, kgo.InstanceID(m.Instance))
	}
	if m.Consumer {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	var err error
	mem.cl, err = f.client(opts...)
	return mem, err
}

func (m *member) given(ps []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.assigned = append(m.mu.assigned, ps...)
	slices.Sort(m.mu.assigned)
	if len(ps) > 0 { // a heartbeat may tell it nothing new
		m.mu.rebalances++
	}
}

func (m *member) taken(ps []int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.assigned = slices.DeleteFunc(m.mu.assigned, func(p int32) bool { return slices.Contains(ps, p) })
	m.mu.rebalances++
}

func (m *member) Poll(d time.Duration) ([]scenario.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	fs := m.cl.PollFetches(ctx)
	if err := fs.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, err
	}
	var out []scenario.Record
	fs.EachRecord(func(k *kgo.Record) { out = append(out, incoming(k)) })
	return out, nil
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

func (m *member) Commit() error { return m.cl.CommitUncommittedOffsets(context.Background()) }

func (m *member) Close() error {
	m.cl.Close() // leaves, but for a static member
	return nil
}
