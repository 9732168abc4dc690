package server

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/projections/txns"
)

// fakeTxns is a backend whose transactional IDs and groups are all the fake's. It answers as a
// test has it, and notes what it was asked.
type fakeTxns struct {
	Backend
	refuse  error // of every shard
	err     error // of all that a shard is asked, and of JoinTxn
	answer  txnshard.Producer
	errs    []error // of Verify and JoinTxn
	txns    []*txns.Txn
	opening bool // another shard is
	group   fakeShard

	mu    sync.Mutex
	calls []any
}

// initCall and the following are calls that have no type of their own.
type (
	initCall struct {
		id      string
		timeout int32
		who     txnshard.Producer
	}
	verifyCall txnshard.Add
	endCall    struct {
		id      string
		who     txnshard.Producer
		commit  bool
		version int8
	}
	joinTxnCall struct {
		add    txnshard.Add
		verify bool
	}
	stageCall struct {
		c groupshard.Commit
		p groupshard.Producer
	}
)

func (f *fakeTxns) note(call any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

// take returns the calls since the last take.
func (f *fakeTxns) take() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fakeTxns) TxnShard(string) (txnShard, error)     { return f, f.refuse }
func (f *fakeTxns) TxnShards() ([]txnShard, bool)         { return []txnShard{f}, !f.opening }
func (f *fakeTxns) GroupShard(string) (groupShard, error) { return &f.group, f.refuse }

func (f *fakeTxns) JoinTxn(_ context.Context, a txnshard.Add, verify bool) ([]error, error) {
	f.note(joinTxnCall{a, verify})
	return f.errs, f.err
}

func (f *fakeTxns) InitProducerID(_ context.Context, id string, timeout int32, who txnshard.Producer) (txnshard.Producer, error) {
	f.note(initCall{id, timeout, who})
	return f.answer, f.err
}

func (f *fakeTxns) Add(_ context.Context, a txnshard.Add) error {
	f.note(a)
	return f.err
}

func (f *fakeTxns) Verify(_ context.Context, a txnshard.Add) ([]error, error) {
	f.note(verifyCall(a))
	return f.errs, f.err
}

func (f *fakeTxns) End(_ context.Context, id string, who txnshard.Producer, commit bool, version int8) (txnshard.Producer, error) {
	f.note(endCall{id, who, commit, version})
	return f.answer, f.err
}

func (f *fakeTxns) Describe(_ context.Context, id string) (*txns.Txn, error) {
	i := slices.IndexFunc(f.txns, func(t *txns.Txn) bool { return t.ID == id })
	if i < 0 {
		return nil, kerr.TransactionalIDNotFound
	}
	return f.txns[i], f.err
}

func (f *fakeTxns) List(_ context.Context, filter txnshard.Filter) (out []*txns.Txn, err error) {
	f.note(filter)
	for _, t := range f.txns {
		if filter.Match == nil || filter.Match(t.ID) {
			out = append(out, t)
		}
	}
	return out, f.err
}

// CommitTxn is the groups' fake's.
func (f *fakeShard) CommitTxn(_ context.Context, c groupshard.Commit, p groupshard.Producer, _ *groupshard.TxnGuard) error {
	f.note(stageCall{c, p})
	return f.err
}

// dialTxns is a client of a broker with the fake's transactions. The topic t has two
// partitions.
func dialTxns(t testing.TB, f *fakeTxns, sets ...string) (c *client, topic [16]byte) {
	t.Helper()
	n := startNode(t, t.TempDir())
	topic = dial(t, n.Addr()).create("t", 2)
	f.Backend = broker{n.broker}
	return dial(t, serveAlso(t, f, n.server.clusterID, sets...)[0]), topic
}

// codes asks and returns the codes of an answer in order, one for each part.
func codes(t testing.TB, resp kmsg.Response) (out []int16) {
	t.Helper()
	switch r := resp.(type) {
	case *kmsg.AddPartitionsToTxnResponse:
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				out = append(out, p.ErrorCode)
			}
		}
		for _, txn := range r.Transactions {
			for _, topic := range txn.Topics {
				for _, p := range topic.Partitions {
					out = append(out, p.ErrorCode)
				}
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		for _, topic := range r.Topics {
			for _, p := range topic.Partitions {
				out = append(out, p.ErrorCode)
			}
		}
	case *kmsg.InitProducerIDResponse:
		out = append(out, r.ErrorCode)
	case *kmsg.AddOffsetsToTxnResponse:
		out = append(out, r.ErrorCode)
	case *kmsg.EndTxnResponse:
		out = append(out, r.ErrorCode)
	default:
		t.Fatalf("%T has no codes here", resp)
	}
	return out
}

// Guard is never broken.
func (f *fakeShard) Guard(groupshard.Producer) (*groupshard.TxnGuard, func()) {
	return new(groupshard.TxnGuard), func() {}
}

// EndTxn is asked of real shards only.
func (f *fakeShard) EndTxn(context.Context, groupshard.Producer, bool, int8) error { return nil }
