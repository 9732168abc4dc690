package partition

import (
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// A segment that held nothing is dropped, and changes nothing of the one before it.
func TestEmptySegmentEndsAlone(t *testing.T) {
	sum := &AbortedSum{Count: 1, From: 2, CRC: 3}
	m := &Manifest{}
	for _, f := range []fact{
		&SegmentAdded{SegmentID{0, 1, 0}}, &SegmentEnded{End: 5, Size: 70, MaxTime: 9, Ended: 10, Aborted: sum},
		&SegmentAdded{SegmentID{5, 1, 1}}, &SegmentEnded{End: 5, Ended: 20},
	} {
		ok(t, f.apply(m))
	}
	want := []Segment{{SegmentID: SegmentID{0, 1, 0}, End: 5, Size: 70, MaxTime: 9, Ended: 10, Aborted: sum}}
	if !reflect.DeepEqual(m.Segments, want) {
		t.Fatalf("segments %+v, want %+v", m.Segments, want)
	}
}

// What an earlier build wrote of producers is read, and one without transactions is
// written as it was.
func TestProducerStateForms(t *testing.T) {
	before := must(msgpack.Marshal([]any{7, 2, 99, [][]int64{{1, 2, 3, -1}}}))(t)
	want := ProducerState{ID: 7, Epoch: 2, Active: 99, Batches: []ProducerBatch{{1, 2, 3, -1}}}
	var got ProducerState
	ok(t, msgpack.Unmarshal(before, &got))
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	var back []any
	if ok(t, msgpack.Unmarshal(must(msgpack.Marshal(&want))(t), &back)); len(back) != 4 {
		t.Fatalf("an earlier build reads %v", back)
	}
	for _, x := range []ProducerState{want, {ID: 1, Batches: []ProducerBatch{}, Txn: &ProducerTxn{CoordinatorEpoch: 3, First: -1, Marker: 70}},
		{ID: 2, Batches: want.Batches, Txn: &ProducerTxn{CoordinatorEpoch: -1, First: 5, Marker: -1}}} {
		m := &Manifest{Recovery: RecoveryPoint{Offset: 100}, Producers: []ProducerState{x}}
		again, err := decodeManifest(must(encodeManifest(m))(t))
		ok(t, err)
		if !reflect.DeepEqual(again.Producers, m.Producers) {
			t.Errorf("%+v, want %+v", again.Producers, m.Producers)
		}
	}
	if err := msgpack.Unmarshal([]byte{0x95, 1, 2, 3, 0x90, 4}, &got); err == nil {
		t.Error("five elements are taken")
	}
}
