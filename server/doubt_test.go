package server

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/internal/substrate"
)

// A leader that was deposed and does not know it yet refuses nothing for good: its successor
// may have stored what makes the sequence right.
func TestDeposedLeaderRefusesNothingForGood(t *testing.T) {
	dir := t.TempDir()
	n := startNode(t, dir)
	c := dial(t, n.Addr())
	c.create("t", 1)
	gap := func() int16 {
		b := newBatch(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 7, 0, 0 }, "v")
		if code, _ := c.produce("t", b); code != 0 && code != kerr.DuplicateSequenceNumber.Code {
			return code
		}
		code, _ := c.produce("t", newBatch(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 7, 0, 5 }, "v"))
		return code
	}
	if code := gap(); code != kerr.OutOfOrderSequenceNumber.Code {
		t.Fatalf("a gap: error %d", code)
	}
	fs, err := substrate.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	v, err := substrate.OpenVolume(fs, "")
	if err != nil {
		t.Fatal(err)
	}
	me, _ := n.broker.View().Broker(0)
	if err := v.Seal(t.Context(), me.Session); err != nil {
		t.Fatal(err)
	}
	code, _ := c.produce("t", newBatch(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 7, 0, 5 }, "v"))
	if code != kerr.NotLeaderForPartition.Code {
		t.Errorf("a gap, at who was deposed: error %d", code)
	}
}
