package server

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/txnshard"
	"kaas.dev/kaas/internal/substrate"
	"kaas.dev/kaas/projections/groups"
	"kaas.dev/kaas/projections/txns"
)

var producer = txnshard.Producer{ID: 7, Epoch: 3}

func wantCalls(t *testing.T, what string, got []any, want ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: the shard is asked %+v, want %+v", what, got, want)
	}
}

func TestInitProducerIDOfATransactionalID(t *testing.T) {
	f := &fakeTxns{answer: producer}
	c, _ := dialTxns(t, f)
	for v := int16(0); v <= 5; v++ {
		what := fmt.Sprintf("version %d", v)
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.TransactionTimeoutMillis = v, kmsg.StringPtr("x"), 1234
		got := c.ask(req).(*kmsg.InitProducerIDResponse)
		if got.ErrorCode != 0 || got.ProducerID != 7 || got.ProducerEpoch != 3 {
			t.Errorf("%s: %+v", what, got)
		}
		wantCalls(t, what, f.take(), initCall{"x", 1234, txnshard.Producer{ID: -1, Epoch: -1}})
		f.err = kerr.ProducerFenced
		want := int16(90)
		if v < 4 {
			want = 47
		}
		resp := c.ask(req).(*kmsg.InitProducerIDResponse)
		if wantCodes(t, what+", fenced", codes(t, resp), want); resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
			t.Errorf("%s: %+v", what, resp)
		}
		f.err = nil
		f.take()
		if v < 3 {
			continue
		}
		req.ProducerID, req.ProducerEpoch = 5, 2
		c.ask(req)
		wantCalls(t, what+", going on", f.take(), initCall{"x", 1234, txnshard.Producer{ID: 5, Epoch: 2}})
		req.ProducerEpoch = -1
		wantCodes(t, what+", half a producer", codes(t, c.ask(req)), 42)
		req.TransactionalID = nil
		wantCodes(t, what+", half a producer without an ID", codes(t, c.ask(req)), 42)
	}
}

// An empty ID is none, and one that is too long for the answers of earlier versions would
// make them unreadable.
func TestTransactionalIDsThatCannotBeTold(t *testing.T) {
	f := &fakeTxns{answer: producer}
	c, _ := dialTxns(t, f)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version = 5
	for _, n := range []int{0, 1 << 15, 65535} {
		req.TransactionalID = kmsg.StringPtr(strings.Repeat("x", n))
		wantCodes(t, fmt.Sprintf("%d bytes", n), codes(t, c.ask(req)), 42)
	}
	if f.take() != nil {
		t.Error("the shard is asked")
	}
	req.TransactionalID = kmsg.StringPtr(strings.Repeat("x", 1<<15-1))
	wantCodes(t, "the longest", codes(t, c.ask(req)), 0)
}

// Every request about a transactional ID tells a coordinator's troubles so that its client
// comes again.
func TestTroubleOfTransactionShards(t *testing.T) {
	f := &fakeTxns{}
	c, _ := dialTxns(t, f)
	id := "x"
	asks := map[string]kmsg.Request{
		"init": &kmsg.InitProducerIDRequest{Version: 4, TransactionalID: &id, ProducerID: -1, ProducerEpoch: -1},
		"add":  addPartitionsReq(3, "t", 0), "add of brokers": addPartitionsReq(5, "t", 0),
		"offsets": &kmsg.AddOffsetsToTxnRequest{Version: 3, TransactionalID: id, Group: "g"},
		"end":     &kmsg.EndTxnRequest{Version: 4, TransactionalID: id},
	}
	for name, req := range asks {
		for _, tc := range []struct {
			err  error
			want int16
		}{{kerr.NotCoordinator, 16}, {kerr.CoordinatorLoadInProgress, 14}, {kerr.CoordinatorNotAvailable, 15}, {substrate.ErrFenced, 16},
			{errors.New("volume"), 16}, {kerr.ConcurrentTransactions, 51}, {kerr.InvalidTxnState, 48}, {kerr.InvalidProducerIDMapping, 49}} {
			f.refuse = tc.err
			wantCodes(t, name+" refused with "+tc.err.Error(), codes(t, c.ask(req)), tc.want)
			f.refuse, f.err = nil, tc.err
			wantCodes(t, name+" answered with "+tc.err.Error(), codes(t, c.ask(req)), tc.want)
			f.err = nil
		}
	}
}

func addPartitionsReq(v int16, topic string, partitions ...int32) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version = v
	if v < 4 {
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = "x", 7, 3
		req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: partitions}}
		return req
	}
	txn := kmsg.NewAddPartitionsToTxnRequestTransaction()
	txn.TransactionalID, txn.ProducerID, txn.ProducerEpoch = "x", 7, 3
	txn.Topics = []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic, Partitions: partitions}}
	req.Transactions = append(req.Transactions, txn)
	return req
}

func TestAddPartitionsToTxn(t *testing.T) {
	f := &fakeTxns{}
	c, id := dialTxns(t, f)
	for v := int16(0); v <= 3; v++ {
		what := fmt.Sprintf("version %d", v)
		wantCodes(t, what, codes(t, c.ask(addPartitionsReq(v, "t", 1, 0))), 0, 0)
		wantCalls(t, what, f.take(), txnshard.Add{ID: "x", Producer: producer, Partitions: []txns.Partition{{Topic: id, Index: 1}, {Topic: id, Index: 0}}})
		// One that is not there keeps all from being added.
		wantCodes(t, what+", one unknown", codes(t, c.ask(addPartitionsReq(v, "t", 0, 2, 1))), 55, 3, 55)
		wantCodes(t, what+", unknown topic", codes(t, c.ask(addPartitionsReq(v, "u", 0))), 3)
		if calls := f.take(); calls != nil {
			t.Errorf("%s: the shard is asked %v", what, calls)
		}
		f.err = kerr.ProducerFenced
		want := int16(90)
		if v < 2 {
			want = 47
		}
		wantCodes(t, what+", fenced", codes(t, c.ask(addPartitionsReq(v, "t", 0, 1))), want, want)
		f.err = nil
		f.take()
	}
	req := addPartitionsReq(3, "t", 0)
	req.TransactionalID = ""
	wantCodes(t, "no ID", codes(t, c.ask(req)), 42)
	wantCodes(t, "the coordinators' own topic", codes(t, c.ask(addPartitionsReq(3, "__consumer_offsets", 3))), 29)
}

// Brokers ask for many transactions at once, some only whether parts are theirs.
func TestAddPartitionsToTxnBetweenBrokers(t *testing.T) {
	f := &fakeTxns{}
	c, id := dialTxns(t, f)
	for v := int16(4); v <= 5; v++ {
		what := fmt.Sprintf("version %d", v)
		req := addPartitionsReq(v, "t", 0)
		req.Transactions[0].Topics = append(req.Transactions[0].Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: "__consumer_offsets", Partitions: []int32{3}})
		wantCodes(t, what, codes(t, c.ask(req)), 0, 0)
		add := txnshard.Add{ID: "x", Producer: producer, Partitions: []txns.Partition{{Topic: id, Index: 0}}, Groups: []int32{3}}
		wantCalls(t, what, f.take(), add)

		req.Transactions[0].VerifyOnly = true
		f.errs = []error{kerr.TransactionAbortable, nil}
		want := int16(120)
		wantCodes(t, what+", verified", codes(t, c.ask(req)), want, 0)
		wantCalls(t, what+", verified", f.take(), verifyCall(add))

		// What is unknown here may be known there soon; the rest is looked for.
		req.Transactions[0].Topics[0].Partitions = []int32{5, 0}
		f.errs = []error{nil, kerr.TransactionAbortable}
		wantCodes(t, what+", verified with one unknown", codes(t, c.ask(req)), 3, 0, want)
		f.take()
		f.errs = nil

		two := addPartitionsReq(v, "t", 0, 1)
		two.Transactions = append(two.Transactions, addPartitionsReq(v, "u", 0).Transactions[0])
		two.Transactions[1].TransactionalID = "y"
		got := c.ask(two).(*kmsg.AddPartitionsToTxnResponse)
		if wantCodes(t, what+", two", codes(t, got), 0, 0, 3); got.Transactions[0].TransactionalID != "x" || got.Transactions[1].TransactionalID != "y" {
			t.Errorf("%s: %+v", what, got)
		}
		f.take()
	}
	wantCodes(t, "no such shard", codes(t, c.ask(addPartitionsReq(5, "__consumer_offsets", 16))), 3)
}

func TestAddOffsetsToTxn(t *testing.T) {
	f := &fakeTxns{}
	c, _ := dialTxns(t, f)
	shard, _ := f.View().ShardOf("groups", "g")
	for v := int16(0); v <= 4; v++ {
		what := fmt.Sprintf("version %d", v)
		req := kmsg.NewPtrAddOffsetsToTxnRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = v, "x", 7, 3, "g"
		wantCodes(t, what, codes(t, c.ask(req)), 0)
		wantCalls(t, what, f.take(), txnshard.Add{ID: "x", Producer: producer, Groups: []int32{shard}})
		f.err = kerr.ProducerFenced
		want := int16(90)
		if v < 2 {
			want = 47
		}
		wantCodes(t, what+", fenced", codes(t, c.ask(req)), want)
		f.err = nil
		f.take()
	}
}

func TestEndTxn(t *testing.T) {
	f := &fakeTxns{answer: txnshard.Producer{ID: 8, Epoch: 0}}
	c, _ := dialTxns(t, f)
	for v := int16(0); v <= 5; v++ {
		for _, commit := range []bool{false, true} {
			what := fmt.Sprintf("version %d, commit %v", v, commit)
			req := kmsg.NewPtrEndTxnRequest()
			req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = v, "x", 7, 3, commit
			got := c.ask(req).(*kmsg.EndTxnResponse)
			want, version, fenced := txnshard.Producer{ID: -1, Epoch: -1}, int8(0), int16(90)
			if v >= 5 {
				want, version = f.answer, 2
			}
			if v < 2 {
				fenced = 47
			}
			if got.ErrorCode != 0 || got.ProducerID != want.ID || got.ProducerEpoch != want.Epoch {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
			wantCalls(t, what, f.take(), endCall{"x", producer, commit, version})
			f.err = kerr.ProducerFenced
			got = c.ask(req).(*kmsg.EndTxnResponse)
			if wantCodes(t, what+", fenced", codes(t, got), fenced); got.ProducerID != -1 || got.ProducerEpoch != -1 {
				t.Errorf("%s: %+v", what, got)
			}
			f.err = nil
			f.take()
		}
	}
}

func txnOffsetReq(v int16, id [16]byte, partitions ...int32) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = v, "x", "g", 7, 3
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = "t", id
	for _, p := range partitions {
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, 10+int64(p), 4, kmsg.StringPtr("meta")
		topic.Partitions = append(topic.Partitions, rp)
	}
	req.Topics = append(req.Topics, topic)
	return req
}

// Every version asks the transaction's coordinator, then the group's.
func TestTxnOffsetCommit(t *testing.T) {
	f := &fakeTxns{}
	c, id := dialTxns(t, f)
	shard, _ := f.View().ShardOf("groups", "g")
	inst := "i1"
	for v := int16(0); v <= 6; v++ {
		what := fmt.Sprintf("version %d", v)
		req := txnOffsetReq(v, id, 0, 1)
		req.MemberID, req.InstanceID, req.Generation = "m", &inst, 5
		wantCodes(t, what, codes(t, c.ask(req)), 0, 0)
		wantCalls(t, what, f.take(), joinTxnCall{txnshard.Add{ID: "x", Producer: producer, Groups: []int32{shard}}, v < 5})
		epoch, commit := int32(-1), groupshard.Commit{Group: "g", Generation: -1}
		if v >= 2 {
			epoch = 4
		}
		if v >= 3 {
			commit.MemberID, commit.InstanceID, commit.Generation = "m", &inst, 5
		}
		commit.Topics = []groups.TopicOffsets{{Topic: id, Partitions: []groups.PartitionOffset{
			{Partition: 0, Offset: 10, LeaderEpoch: epoch, Metadata: "meta", Expires: -1}, {Partition: 1, Offset: 11, LeaderEpoch: epoch, Metadata: "meta", Expires: -1}}}}
		if got := f.group.last(t); !reflect.DeepEqual(got, stageCall{commit, groupshard.Producer(producer)}) {
			t.Errorf("%s: the group is asked %+v, want %+v", what, got, commit)
		}
		// A partition that is not there is told for itself.
		wantCodes(t, what+", one unknown", codes(t, c.ask(txnOffsetReq(v, id, 0, 2))), 0, 3)
		f.take()
		req = txnOffsetReq(v, id, 0)
		req.Topics[0].Topic, req.Topics[0].TopicID = "u", [16]byte{1}
		want := int16(3)
		if v >= 6 {
			want = 100
		}
		wantCodes(t, what+", unknown topic", codes(t, c.ask(req)), want)
		if calls := f.take(); calls != nil {
			t.Errorf("%s: nothing is to be committed, and it asks %v", what, calls)
		}
	}
}

func TestTxnOffsetCommitCodes(t *testing.T) {
	f := &fakeTxns{}
	c, id := dialTxns(t, f)
	for _, tc := range []struct {
		join, group error
		want        [7]int16 // by version
	}{
		{join: kerr.NotCoordinator, want: [7]int16{15, 15, 14, 14, 14, 14, 14}},
		{join: kerr.CoordinatorLoadInProgress, want: [7]int16{15, 15, 14, 14, 14, 14, 14}},
		{join: errors.New("connection refused"), want: [7]int16{15, 15, 14, 14, 14, 14, 14}},
		{join: kerr.ConcurrentTransactions, want: [7]int16{15, 15, 14, 14, 14, 51, 51}},
		{join: kerr.TransactionAbortable, want: [7]int16{48, 48, 48, 48, 120, 120, 120}},
		{join: kerr.ProducerFenced, want: [7]int16{90, 90, 90, 90, 90, 90, 90}},
		{join: kerr.InvalidProducerIDMapping, want: [7]int16{49, 49, 49, 49, 49, 49, 49}},
		{group: kerr.NotCoordinator, want: [7]int16{16, 16, 16, 16, 16, 16, 16}},
		{group: kerr.UnknownMemberID, want: [7]int16{25, 25, 25, 25, 25, 25, 25}},
		{group: kerr.StaleMemberEpoch, want: [7]int16{22, 22, 22, 22, 22, 22, 113}},
	} {
		for v, want := range tc.want {
			f.err, f.group.err = tc.join, tc.group
			wantCodes(t, fmt.Sprintf("version %d, %v, %v", v, tc.join, tc.group), codes(t, c.ask(txnOffsetReq(int16(v), id, 0))), want)
			// The verdict on the one part counts like that on the call.
			if tc.join != nil && errors.As(tc.join, new(*kerr.Error)) {
				f.err, f.errs = nil, []error{tc.join}
				wantCodes(t, fmt.Sprintf("version %d, part %v", v, tc.join), codes(t, c.ask(txnOffsetReq(int16(v), id, 0))), want)
				f.errs = nil
			}
		}
	}
	f.err, f.group.err = nil, nil
	req := txnOffsetReq(5, id, 0)
	req.TransactionalID = ""
	wantCodes(t, "no transactional ID", codes(t, c.ask(req)), 42)
	req = txnOffsetReq(5, id, 0)
	req.Group = ""
	wantCodes(t, "no group", codes(t, c.ask(req)), 24)
	f.refuse = kerr.CoordinatorLoadInProgress
	wantCodes(t, "the group's shard is being opened", codes(t, c.ask(txnOffsetReq(1, id, 0))), 15)
}

func someTxns(topic [16]byte) []*txns.Txn {
	return []*txns.Txn{
		{ID: "orders-1", ProducerID: 7, Epoch: 3, State: txns.Ongoing, Timeout: 60_000, Started: 1234, Groups: []int32{2, 5},
			Partitions: txns.Partitions{{Topic: topic, Index: 0}, {Topic: topic, Index: 1}, {Topic: [16]byte{9}, Index: 0}}},
		{ID: "orders-2", ProducerID: 8, State: txns.CompleteAbort, Timeout: 1000, Started: -1},
	}
}

func TestDescribeTransactions(t *testing.T) {
	f := &fakeTxns{}
	c, id := dialTxns(t, f)
	f.txns = someTxns(id)
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{"orders-1", "nobody", "orders-2", ""}
	got := c.ask(req).(*kmsg.DescribeTransactionsResponse).TransactionStates
	want := []kmsg.DescribeTransactionsResponseTransactionState{
		{TransactionalID: "orders-1", State: "Ongoing", TimeoutMillis: 60_000, StartTimestamp: 1234, ProducerID: 7, ProducerEpoch: 3,
			Topics: []kmsg.DescribeTransactionsResponseTransactionStateTopic{{Topic: "__consumer_offsets", Partitions: []int32{2, 5}}, {Topic: "t", Partitions: []int32{0, 1}}}},
		{TransactionalID: "nobody", ErrorCode: 105},
		{TransactionalID: "orders-2", State: "CompleteAbort", TimeoutMillis: 1000, StartTimestamp: -1, ProducerID: 8},
		{ErrorCode: 42},
	}
	for i := range want {
		if g, w := fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", want[i]); g != w {
			t.Errorf("got  %s\nwant %s", g, w)
		}
	}
	f.refuse = kerr.NotCoordinator
	if got := c.ask(req).(*kmsg.DescribeTransactionsResponse).TransactionStates; got[0].ErrorCode != 16 || got[0].State != "" {
		t.Errorf("of another's shard: %+v", got[0])
	}
}

func TestListTransactions(t *testing.T) {
	f := &fakeTxns{}
	c, id := dialTxns(t, f)
	f.txns = someTxns(id)
	list := func(v int16, set func(*kmsg.ListTransactionsRequest)) *kmsg.ListTransactionsResponse {
		t.Helper()
		f.take()
		req := kmsg.NewPtrListTransactionsRequest()
		req.Version = v
		set(req)
		return c.ask(req).(*kmsg.ListTransactionsResponse)
	}
	for v := int16(0); v <= 2; v++ {
		got := list(v, func(*kmsg.ListTransactionsRequest) {})
		if len(got.TransactionStates) != 2 || got.TransactionStates[0].TransactionalID != "orders-1" || got.TransactionStates[0].ProducerID != 7 ||
			got.TransactionStates[0].TransactionState != "Ongoing" || got.ErrorCode != 0 {
			t.Errorf("version %d: %+v", v, got)
		}
		wantCalls(t, "all", f.take(), txnshard.Filter{OpenFor: -1})
		got = list(v, func(r *kmsg.ListTransactionsRequest) {
			r.StateFilters, r.ProducerIDFilters, r.DurationFilterMillis = []string{"Ongoing", "Sleeping", "Dead"}, []int64{7}, 1500
		})
		if !slices.Equal(got.UnknownStateFilters, []string{"Sleeping"}) {
			t.Errorf("version %d: %+v", v, got)
		}
		want := txnshard.Filter{States: []txns.State{txns.Ongoing}, Producers: []int64{7}, OpenFor: 1500 * time.Millisecond}
		if v < 1 {
			want.OpenFor = -1
		}
		wantCalls(t, "filtered", f.take(), want)
		got = list(v, func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Dead"} })
		if len(got.TransactionStates) != 0 || len(got.UnknownStateFilters) != 0 || got.ErrorCode != 0 {
			t.Errorf("version %d: %+v", v, got)
		}
	}
	pattern := func(p string) *kmsg.ListTransactionsResponse {
		return list(2, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &p })
	}
	if got := pattern("orders-(2|3)"); len(got.TransactionStates) != 1 || got.TransactionStates[0].TransactionalID != "orders-2" {
		t.Errorf("pattern: %+v", got)
	}
	if got := pattern("orders"); len(got.TransactionStates) != 0 {
		t.Errorf("a pattern matches a part: %+v", got)
	}
	if got := pattern("("); got.ErrorCode != 128 {
		t.Errorf("a pattern that is none: %+v", got)
	}
	f.opening = true
	if got := pattern(""); got.ErrorCode != 14 || got.TransactionStates != nil {
		t.Errorf("while one is opened: %+v", got)
	}
}
