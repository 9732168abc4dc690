package txns

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"kaas.dev/kaas/metalog"
)

// Whichever of the two is the later one: no epoch of a producer falls, no open transaction of
// now is lost or has its outcome turned, and none of then is opened again.
func TestRestoreOpensAndLosesNoTransaction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		then := fold(t, NewShard(), someEvents(t))
		now := fold(t, then, someEvents(t))
		if rapid.Bool().Draw(t, "ahead") {
			then, now = now, then
		}
		got := Restore(then, now).Shard
		if again := Restore(then, got).Shard; !again.Equal(got) {
			t.Fatal("restoring twice is not as once")
		}
		if back, err := Decode(mustEncode(t, got)); err != nil || !back.Equal(got) {
			t.Fatalf("a base does not hold it: %v", err)
		}
		if got.Len() != now.Len() {
			t.Fatalf("%d transactional IDs, were %d", got.Len(), now.Len())
		}
		for x := range now.Txns() {
			r, old := got.Txn(x.ID), then.Txn(x.ID)
			if r.ProducerID != x.ProducerID || r.Epoch < x.Epoch || old != nil && old.ProducerID == x.ProducerID && r.Epoch < old.Epoch {
				t.Fatalf("now %+v, then %+v, restored %+v", x, old, r)
			}
			if r.Open() != x.Open() || !reflect.DeepEqual(r.Partitions, x.Partitions) || !reflect.DeepEqual(r.Groups, x.Groups) {
				t.Fatalf("now %+v, restored %+v", x, r)
			}
			if r.State != x.State && !(x.State == Ongoing && r.State == PrepareAbort && r.Epoch > x.Epoch) {
				t.Fatalf("now %+v, restored %+v", x, r)
			}
		}
	})
}

func TestRestoreOfTransactions(t *testing.T) {
	parts := Partitions{{topic(1), 0}}
	x := func(id string, state State, producer int64, epoch int16) Txn {
		n := Txn{ID: id, ProducerID: producer, Epoch: epoch, LastEpoch: epoch - 1, PrevProducerID: -1, NextProducerID: -1, State: state, Timeout: 1}
		if n.Open() {
			n.Partitions = parts
		}
		return n
	}
	shard := func(ts ...Txn) *Shard {
		var evs []metalog.Event
		for _, t1 := range ts {
			evs = append(evs, mustEvent(t, &TxnChanged{t1}))
		}
		return fold(t, NewShard(), evs)
	}
	then := shard(x("ended", Ongoing, 1, 3), x("deciding", PrepareCommit, 2, 3), x("moved", Empty, 3, 3), x("forgotten", Empty, 4, 3),
		x("ahead", CompleteCommit, 5, 9), x("open ahead", Empty, 6, 9), x("last", Empty, 7, math.MaxInt16))
	now := shard(x("ended", CompleteCommit, 1, 4), x("deciding", PrepareCommit, 2, 3), x("moved", Ongoing, 33, 0),
		x("ahead", CompleteCommit, 5, 4), x("open ahead", Ongoing, 6, 4), x("last", PrepareCommit, 7, 4), x("new", Ongoing, 8, 0))
	r := Restore(then, now)
	for _, want := range []Txn{x("ended", CompleteCommit, 1, 4), x("deciding", PrepareCommit, 2, 3), x("moved", Ongoing, 33, 0), x("new", Ongoing, 8, 0)} {
		if got := r.Shard.Txn(want.ID); !got.Equal(&want) {
			t.Errorf("%s is %+v", want.ID, got)
		}
	}
	if r.Shard.Txn("forgotten") != nil {
		t.Error("what was forgotten is back")
	}
	if got := r.Shard.Txn("ahead"); got.Epoch != 10 || got.State != CompleteCommit || got.LastEpoch != NoEpoch {
		t.Errorf("ahead is %+v", got)
	}
	if got := r.Shard.Txn("open ahead"); got.Epoch != 10 || got.State != PrepareAbort || !got.Fencing || !reflect.DeepEqual(got.Partitions, parts) {
		t.Errorf("open ahead is %+v", got)
	}
	if got := r.Shard.Txn("last"); got.Epoch != math.MaxInt16 || got.State != PrepareCommit {
		t.Errorf("last is %+v", got)
	}
	if !reflect.DeepEqual(r.Fenced, []string{"ahead", "last", "open ahead"}) || !reflect.DeepEqual(r.Aborted, []string{"open ahead"}) ||
		!reflect.DeepEqual(r.Ended, []string{"ended"}) || r.Later != 2 || !reflect.DeepEqual(r.Forgotten, []string{"forgotten"}) {
		t.Errorf("told %+v", r)
	}
	// In one history the earlier state never changes anything.
	if same := Restore(then, shard(x("ended", CompleteCommit, 1, 4))); !bytes.Equal(mustEncode(t, same.Shard), mustEncode(t, shard(x("ended", CompleteCommit, 1, 4)))) {
		t.Error("an earlier state has changed the later one")
	}
}
