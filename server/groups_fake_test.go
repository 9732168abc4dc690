package server

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/coordinator/groupshard/consumer"
	"kaas.dev/kaas/projections/groups"
)

// fakeShard answers as a test has it, and notes what it was asked.
type fakeShard struct {
	join      classic.JoinAnswer
	sync      classic.SyncAnswer
	err       error // of all others
	leave     []error
	group     *groups.Group
	described map[string]groupshard.Description
	listed    []groupshard.Listed
	deleted   []error
	beat      consumer.HeartbeatResponse
	spends    time.Duration // on a heartbeat's pattern
	hold      bool          // Join waits for the end
	opening   bool          // another shard is

	mu    sync.Mutex
	calls []any
}

// beatCall and the following are calls that have no type of their own.
type (
	beatCall struct {
		group, member string
		instance      *string
		generation    int32
	}
	leaveCall   []classic.LeaveMember
	offsetsCall struct {
		group  string
		member *string
		epoch  int32
	}
	deleteCall        string
	deleteOffsetsCall []groups.TopicPartitions
)

func (f *fakeShard) note(call any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// last is the newest call.
func (f *fakeShard) last(t testing.TB) any {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		t.Fatal("the shard is not asked")
	}
	return f.calls[len(f.calls)-1]
}

func (f *fakeShard) Join(ctx context.Context, _ string, r classic.JoinRequest) classic.JoinAnswer {
	f.note(r)
	if f.hold {
		<-ctx.Done()
		return classic.JoinAnswer{Err: ctx.Err()}
	}
	return f.join
}

func (f *fakeShard) Sync(_ context.Context, _ string, r classic.SyncRequest) classic.SyncAnswer {
	f.note(r)
	return f.sync
}

func (f *fakeShard) Heartbeat(_ context.Context, group, member string, instance *string, generation int32) error {
	f.note(beatCall{group, member, instance, generation})
	return f.err
}

func (f *fakeShard) Leave(_ context.Context, _ string, ms []classic.LeaveMember) ([]error, error) {
	f.note(leaveCall(ms))
	return f.leave, f.err
}

func (f *fakeShard) Commit(_ context.Context, c groupshard.Commit) error {
	f.note(c)
	return f.err
}

func (f *fakeShard) Fetch(_ context.Context, group string, member *string, epoch int32) (*groups.Group, error) {
	f.note(offsetsCall{group, member, epoch})
	if f.group != nil && f.group.ID != group {
		return nil, f.err
	}
	return f.group, f.err
}

func (f *fakeShard) Describe(_ context.Context, group string) (groupshard.Description, error) {
	if d, ok := f.described[group]; ok || f.err != nil {
		return d, f.err
	}
	return groupshard.Description{}, kerr.GroupIDNotFound
}

func (f *fakeShard) List(context.Context) ([]groupshard.Listed, error) { return f.listed, f.err }

func (f *fakeShard) Delete(_ context.Context, group string) error {
	f.note(deleteCall(group))
	return f.err
}

func (f *fakeShard) DeleteOffsets(_ context.Context, _ string, topics []groups.TopicPartitions) ([]error, error) {
	f.note(deleteOffsetsCall(topics))
	return f.deleted, f.err
}

func (f *fakeShard) ConsumerHeartbeat(_ context.Context, r consumer.HeartbeatRequest) (consumer.HeartbeatResponse, error) {
	if r.Spent == nil {
		return f.beat, errors.New("nobody is told what patterns take")
	}
	r.Spent(f.spends)
	r.Spent = nil // what is compared has none
	f.note(r)
	return f.beat, f.err
}

// dialFake is a broker whose groups are all the shard's, or refused with an error, and a
// client of it. The topic t has two partitions.
func dialFake(t testing.TB, f *fakeShard, refuse *error, sets ...string) (*client, *Node, [16]byte) {
	t.Helper()
	n := startNode(t, t.TempDir())
	id := dial(t, n.Addr()).create("t", 2)
	b := &another{Backend: broker{n.broker}, shards: func() ([]groupShard, bool) { return []groupShard{f}, !f.opening }, shard: func(string) (groupShard, error) {
		if refuse != nil && *refuse != nil {
			return nil, *refuse
		}
		return f, nil
	}}
	return dial(t, serveAlso(t, b, n.server.clusterID, sets...)[0]), n, id
}
