package txnshard

import (
	"errors"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"kaas.dev/kaas/projections"
	"kaas.dev/kaas/projections/txns"
)

const maxEpoch = math.MaxInt16

func topicID(n int) projections.TopicID { return projections.TopicID{0: 1, 15: byte(n)} }

func part(topic int, index int32) txns.Partition {
	return txns.Partition{Topic: topicID(topic), Index: index}
}

// at is a transaction of producer 10 in a state.
func at(s txns.State, epoch, last int16) *txns.Txn {
	t := &txns.Txn{ID: "t", ProducerID: 10, Epoch: epoch, LastEpoch: last, PrevProducerID: -1, NextProducerID: -1, State: s, Timeout: 1000,
		Started: txns.NotStarted, Updated: 50}
	if t.Open() {
		t.Partitions, t.Groups, t.Started = txns.Partitions{part(1, 0)}, []int32{3}, 40
	}
	return t
}

// rotated is one whose producer 10 was replaced by 20.
func rotated(s txns.State, last int16) *txns.Txn {
	t := at(s, 0, last)
	t.ProducerID, t.PrevProducerID = 20, 10
	return t
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func TestInitProducer(t *testing.T) {
	p := func(id int64, e int16) Producer { return Producer{id, e} }
	for name, tc := range map[string]struct {
		from      *txns.Txn
		who       Producer
		fresh     int64
		err       error
		state     txns.State
		is        Producer
		last      int16
		prev, nxt int64
	}{
		"new":                            {nil, nobody, 10, nil, txns.Empty, p(10, 0), -1, -1, -1},
		"new needs an ID":                {from: nil, who: nobody, fresh: -1, err: errNeedID},
		"forgotten, of one that goes on": {nil, p(7, 3), 10, nil, txns.Empty, p(10, 0), -1, -1, -1},
		"known":                          {at(txns.Empty, 4, -1), nobody, -1, nil, txns.Empty, p(10, 5), -1, -1, -1},
		"known, committed":               {at(txns.CompleteCommit, 4, 3), nobody, -1, nil, txns.Empty, p(10, 5), -1, -1, -1},
		"goes on":                        {at(txns.CompleteAbort, 4, 3), p(10, 4), -1, nil, txns.Empty, p(10, 5), 4, -1, -1},
		"goes on, asked before":          {at(txns.Empty, 5, 4), p(10, 4), -1, nil, txns.Empty, p(10, 5), 4, -1, -1},
		"asked before, after an end":     {at(txns.CompleteCommit, 5, 4), p(10, 4), -1, nil, txns.Empty, p(10, 5), 4, -1, -1},
		"zombie":                         {from: at(txns.Empty, 5, -1), who: p(10, 4), fresh: -1, err: kerr.ProducerFenced},
		"zombie of long ago":             {from: at(txns.Empty, 5, 4), who: p(10, 3), fresh: -1, err: kerr.ProducerFenced},
		"from the future":                {from: at(txns.Empty, 5, 4), who: p(10, 6), fresh: -1, err: kerr.ProducerFenced},
		"of another ID":                  {from: at(txns.Empty, 5, 4), who: p(11, 5), fresh: -1, err: kerr.ProducerFenced},
		"while it is ending":             {from: at(txns.PrepareCommit, 5, 4), who: nobody, fresh: -1, err: kerr.ConcurrentTransactions},
		"goes on while it is ending":     {from: at(txns.PrepareAbort, 5, 4), who: p(10, 4), fresh: -1, err: kerr.ConcurrentTransactions},
		"open":                           {at(txns.Ongoing, 5, -1), nobody, -1, nil, txns.PrepareAbort, p(10, 6), -1, -1, -1},
		"open, of one that goes on":      {at(txns.Ongoing, 5, -1), p(10, 5), -1, nil, txns.PrepareAbort, p(10, 6), 5, -1, -1},
		"open, of a zombie":              {from: at(txns.Ongoing, 5, 4), who: p(10, 4), fresh: -1, err: kerr.ProducerFenced},
		"used up needs an ID":            {from: at(txns.Empty, lastEpoch, -1), who: nobody, fresh: -1, err: errNeedID},
		"used up":                        {at(txns.Empty, lastEpoch, -1), nobody, 20, nil, txns.Empty, p(20, 0), -1, 10, -1},
		"used up, goes on":               {at(txns.Empty, lastEpoch, -1), p(10, lastEpoch), 20, nil, txns.Empty, p(20, 0), lastEpoch, 10, -1},
		"one before it is used up":       {at(txns.Empty, lastEpoch-1, -1), nobody, -1, nil, txns.Empty, p(10, lastEpoch), -1, -1, -1},
		"used up while fenced":           {at(txns.CompleteAbort, maxEpoch, -1), nobody, 20, nil, txns.Empty, p(20, 0), -1, 10, -1},
		"replaced, asked before":         {rotated(txns.Empty, lastEpoch), p(10, lastEpoch), -1, nil, txns.Empty, p(20, 0), lastEpoch, 10, -1},
		"replaced by another":            {from: rotated(txns.Empty, -1), who: p(10, lastEpoch), fresh: -1, err: kerr.ProducerFenced},
		"replaced, then known":           {rotated(txns.Empty, -1), nobody, -1, nil, txns.Empty, p(20, 1), -1, 10, -1},
		"open and used up needs an ID":   {from: at(txns.Ongoing, lastEpoch, -1), who: nobody, fresh: -1, err: errNeedID},
		"open and used up":               {at(txns.Ongoing, lastEpoch, -1), nobody, 20, nil, txns.PrepareAbort, p(10, maxEpoch), -1, -1, 20},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := initProducer(tc.from, "t", 2000, tc.who, tc.fresh, 60)
			if tc.err != nil || err != nil {
				wantErr(t, err, tc.err)
				return
			}
			if n.State != tc.state || current(n) != tc.is || n.LastEpoch != tc.last || n.PrevProducerID != tc.prev || n.NextProducerID != tc.nxt {
				t.Errorf("got %+v", n)
			}
			if n.State == txns.Empty && (n.Timeout != 2000 || n.Started != txns.NotStarted || n.Open()) || n.Updated != 60 || n.Fencing {
				t.Errorf("got %+v", n)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	ok := Add{ID: "t", Producer: Producer{10, 5}, Partitions: []txns.Partition{part(2, 1), part(1, 0), part(1, 7), part(2, 1)}, Groups: []int32{9, 3, 1}}
	for name, tc := range map[string]struct {
		from *txns.Txn
		who  Producer
		err  error
	}{
		"unknown":            {nil, ok.Producer, kerr.InvalidProducerIDMapping},
		"another ID":         {at(txns.Empty, 5, 4), Producer{11, 5}, kerr.InvalidProducerIDMapping},
		"zombie":             {at(txns.Ongoing, 6, 5), ok.Producer, kerr.ProducerFenced},
		"from the future":    {at(txns.Ongoing, 4, 3), ok.Producer, kerr.ProducerFenced},
		"ending":             {at(txns.PrepareCommit, 5, 4), ok.Producer, kerr.ConcurrentTransactions},
		"ending, another ID": {at(txns.PrepareAbort, maxEpoch, lastEpoch), Producer{20, 0}, kerr.ConcurrentTransactions},
		"empty":              {at(txns.Empty, 5, 4), ok.Producer, nil},
		"committed":          {at(txns.CompleteCommit, 5, 4), ok.Producer, nil},
		"aborted":            {at(txns.CompleteAbort, 5, 4), ok.Producer, nil},
		"open":               {at(txns.Ongoing, 5, 4), ok.Producer, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := ok
			a.Producer = tc.who
			n, err := add(tc.from, a, 60)
			if tc.err != nil || err != nil {
				wantErr(t, err, tc.err)
				return
			}
			want := *tc.from
			want.State, want.Updated, want.Groups = txns.Ongoing, 60, []int32{1, 3, 9}
			want.Partitions = txns.Partitions{part(1, 0), part(1, 7), part(2, 1)}
			if want.Started == txns.NotStarted {
				want.Started = 60
			}
			if !n.Equal(&want) {
				t.Errorf("got %+v, want %+v", n, want)
			}
			if again, err := add(n, a, 70); err != nil || again != n {
				t.Errorf("added again: %+v, %v", again, err)
			}
			if tc.from.Open() && len(tc.from.Partitions) != 1 {
				t.Error("the transaction before has changed")
			}
		})
	}
	if n, err := add(rotated(txns.Empty, lastEpoch), Add{Producer: Producer{20, 0}, Groups: []int32{1}}, 60); err != nil || n.PrevProducerID != -1 {
		t.Errorf("whom it replaced is still known: %+v, %v", n, err)
	}
	if x := at(txns.Empty, 5, 4); true {
		if n, err := add(x, Add{Producer: Producer{10, 5}}, 60); err != nil || n != x {
			t.Errorf("adding nothing: %+v, %v", n, err)
		}
	}
}

func TestVerify(t *testing.T) {
	a := Add{ID: "t", Producer: Producer{10, 5}, Partitions: []txns.Partition{part(1, 0), part(1, 1)}, Groups: []int32{2, 3}}
	errs, err := verify(at(txns.Ongoing, 5, 4), a)
	if err != nil || len(errs) != 4 || errs[0] != nil || errs[1] != kerr.TransactionAbortable || errs[2] != kerr.TransactionAbortable || errs[3] != nil {
		t.Errorf("%v, %v", errs, err)
	}
	errs, err = verify(at(txns.CompleteCommit, 5, 4), a)
	if err != nil || errs[0] != kerr.TransactionAbortable || errs[3] != kerr.TransactionAbortable {
		t.Errorf("complete: %v, %v", errs, err)
	}
	for _, tc := range []struct {
		t    *txns.Txn
		want error
	}{{nil, kerr.InvalidProducerIDMapping}, {rotated(txns.Ongoing, 0), kerr.InvalidProducerIDMapping},
		{at(txns.Ongoing, 6, 5), kerr.ProducerFenced}, {at(txns.PrepareAbort, 5, 4), kerr.ConcurrentTransactions}} {
		if _, err := verify(tc.t, a); !errors.Is(err, tc.want) {
			t.Errorf("%+v: %v, want %v", tc.t, err, tc.want)
		}
	}
}

func TestEnd(t *testing.T) {
	now, before := Producer{10, 5}, Producer{10, 4}
	type row struct {
		from    *txns.Txn
		who     Producer
		version int8
		// What comes of an abort, and of a commit: an error, or "" for what was done before, or
		// a new state.
		abort, commit any
	}
	same := "the same"
	for name, r := range map[string]row{
		"unknown": {nil, now, 2, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
		// Kafka's table of version 2.
		"empty, again":      {at(txns.Empty, 5, 4), before, 2, kerr.ProducerFenced, kerr.ProducerFenced},
		"empty":             {at(txns.Empty, 5, 4), now, 2, txns.PrepareAbort, kerr.InvalidTxnState},
		"aborted, again":    {at(txns.CompleteAbort, 5, 4), before, 2, same, kerr.InvalidTxnState},
		"aborted":           {at(txns.CompleteAbort, 5, 4), now, 2, txns.PrepareAbort, kerr.InvalidTxnState},
		"committed, again":  {at(txns.CompleteCommit, 5, 4), before, 2, kerr.InvalidTxnState, same},
		"committed":         {at(txns.CompleteCommit, 5, 4), now, 2, txns.PrepareAbort, kerr.InvalidTxnState},
		"open":              {at(txns.Ongoing, 5, 4), now, 2, txns.PrepareAbort, txns.PrepareCommit},
		"open, again":       {at(txns.Ongoing, 5, 4), before, 2, kerr.ProducerFenced, kerr.ProducerFenced},
		"committing, again": {at(txns.PrepareCommit, 5, 4), before, 2, kerr.InvalidTxnState, kerr.ConcurrentTransactions},
		"aborting, again":   {at(txns.PrepareAbort, 5, 4), before, 2, kerr.ConcurrentTransactions, kerr.InvalidTxnState},
		// Its end is answered before it is known everywhere: who goes on at once waits.
		"committing":           {at(txns.PrepareCommit, 5, 4), now, 2, kerr.ConcurrentTransactions, kerr.ConcurrentTransactions},
		"aborting":             {at(txns.PrepareAbort, 5, 4), now, 2, kerr.ConcurrentTransactions, kerr.ConcurrentTransactions},
		"another ID":           {at(txns.Ongoing, 5, 4), Producer{11, 5}, 2, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
		"aborted for another":  {at(txns.CompleteAbort, 5, -1), before, 2, kerr.ProducerFenced, kerr.ProducerFenced},
		"replaced, again":      {rotated(txns.CompleteCommit, lastEpoch), Producer{10, lastEpoch}, 2, kerr.InvalidTxnState, same},
		"replaced for another": {rotated(txns.CompleteAbort, -1), Producer{10, lastEpoch}, 2, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
		"replaced, zombie":     {rotated(txns.CompleteCommit, lastEpoch), Producer{10, 7}, 2, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
		"used up":              {at(txns.Ongoing, lastEpoch, 4), Producer{10, lastEpoch}, 2, errNeedID, errNeedID},
		// Version 1.
		"v1 empty":      {at(txns.Empty, 5, 4), now, 1, kerr.InvalidTxnState, kerr.InvalidTxnState},
		"v1 aborted":    {at(txns.CompleteAbort, 5, 4), now, 1, same, kerr.InvalidTxnState},
		"v1 committed":  {at(txns.CompleteCommit, 5, 4), now, 1, kerr.InvalidTxnState, same},
		"v1 open":       {at(txns.Ongoing, 5, 4), now, 1, txns.PrepareAbort, txns.PrepareCommit},
		"v1 committing": {at(txns.PrepareCommit, 5, 4), now, 1, kerr.InvalidTxnState, kerr.ConcurrentTransactions},
		"v1 aborting":   {at(txns.PrepareAbort, 5, 4), now, 1, kerr.ConcurrentTransactions, kerr.InvalidTxnState},
		"v1 zombie":     {at(txns.Ongoing, 5, 4), before, 1, kerr.ProducerFenced, kerr.ProducerFenced},
		"v1 another ID": {at(txns.Ongoing, 5, 4), Producer{11, 5}, 1, kerr.InvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
		"v1 used up":    {at(txns.Ongoing, lastEpoch, 4), Producer{10, lastEpoch}, 1, txns.PrepareAbort, txns.PrepareCommit},
	} {
		for _, commit := range []bool{false, true} {
			want := r.abort
			if commit {
				want = r.commit
			}
			n, err := end(r.from, "t", r.who, commit, r.version, -1, 60)
			switch want := want.(type) {
			case error:
				if !errors.Is(err, want) {
					t.Errorf("%s, commit %v: %v, want %v", name, commit, err, want)
				}
			case string:
				if err != nil || n != r.from {
					t.Errorf("%s, commit %v: %+v, %v, want what is", name, commit, n, err)
				}
			case txns.State:
				if err != nil || n.State != want {
					t.Errorf("%s, commit %v: %+v, %v, want %v", name, commit, n, err, want)
					continue
				}
				epoch, last, version := r.from.Epoch, r.from.LastEpoch, int8(0)
				if r.version >= 2 {
					epoch, last, version = epoch+1, epoch, 2
				}
				if n.Epoch != epoch || n.LastEpoch != last || n.Version != version || n.ProducerID != 10 || n.Started < 40 {
					t.Errorf("%s, commit %v: %+v", name, commit, n)
				}
			}
		}
	}
}

// A producer whose epochs are used up begins its next transaction under a new ID.
func TestEndOfTheLastEpoch(t *testing.T) {
	n, err := end(at(txns.Ongoing, lastEpoch, lastEpoch-1), "t", Producer{10, lastEpoch}, true, 2, 20, 60)
	if err != nil || current(n) != (Producer{10, maxEpoch}) || successor(n) != (Producer{20, 0}) {
		t.Fatalf("%+v, %v", n, err)
	}
	if _, err := end(n, "t", Producer{10, lastEpoch}, true, 2, -1, 60); !errors.Is(err, kerr.ConcurrentTransactions) {
		t.Errorf("asked again while it is ending: %v", err)
	}
	c := complete(n, 70)
	if current(c) != (Producer{20, 0}) || c.PrevProducerID != 10 || c.NextProducerID != -1 || c.State != txns.CompleteCommit || c.Open() || len(c.Partitions) != 0 {
		t.Fatalf("complete: %+v", c)
	}
	again, err := end(c, "t", Producer{10, lastEpoch}, true, 2, -1, 80)
	if err != nil || successor(again) != (Producer{20, 0}) {
		t.Errorf("asked again: %+v, %v", again, err)
	}
}

func TestExpire(t *testing.T) {
	n, err := expire(at(txns.Ongoing, 5, -1), -1, 60)
	if err != nil || n.State != txns.PrepareAbort || n.Epoch != 6 || n.LastEpoch != 5 || !n.Fencing || n.Version != 2 {
		t.Fatalf("%+v, %v", n, err)
	}
	c := complete(n, 70)
	if c.State != txns.CompleteAbort || c.Fencing {
		t.Fatalf("%+v", c)
	}
	// The producer that comes late learns of it, and may go on after an abort.
	if _, err := end(c, "t", Producer{10, 5}, true, 2, -1, 80); !errors.Is(err, kerr.InvalidTxnState) {
		t.Errorf("late commit: %v", err)
	}
	if a, err := end(c, "t", Producer{10, 5}, false, 2, -1, 80); err != nil || successor(a) != (Producer{10, 6}) {
		t.Errorf("late abort: %+v, %v", a, err)
	}
	if _, err := end(c, "t", Producer{10, 5}, false, 1, -1, 80); !errors.Is(err, kerr.ProducerFenced) {
		t.Errorf("late abort of version 1: %v", err)
	}
	if n, err := expire(at(txns.Ongoing, maxEpoch, -1), 20, 60); err != nil || n.Epoch != maxEpoch || n.NextProducerID != 20 {
		t.Errorf("beyond the last epoch: %+v, %v", n, err)
	}
}
