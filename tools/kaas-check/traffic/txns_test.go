package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// A transaction that somebody asked to commit is not committed only if the one request for it was
// refused, or never sent. What nobody asked to commit is never.
func TestEndOutcomes(t *testing.T) {
	refused := fmt.Errorf("x: %w", &net.OpError{Op: "dial", Err: errors.New("refused")})
	for _, tc := range []struct {
		name    string
		commit  bool
		err     error
		written int64
		want    history.Outcome
	}{
		{"committed", true, nil, 1, history.OK},
		{"committed at last", true, nil, 3, history.OK},
		{"aborted", false, nil, 1, history.Failed},
		{"aborted, perhaps", false, context.DeadlineExceeded, 2, history.Failed},
		{"fenced", true, kerr.ProducerFenced, 1, history.Failed},
		{"fenced, but sent before", true, kerr.ProducerFenced, 2, history.Unknown},
		{"not attempted", true, kerr.OperationNotAttempted, 0, history.Failed},
		{"never sent", true, refused, 0, history.Failed},
		{"not sent again", true, refused, 1, history.Unknown},
		{"too late, and perhaps just sent", true, context.DeadlineExceeded, 0, history.Unknown},
		{"not the coordinator, perhaps no longer", true, kerr.NotCoordinator, 1, history.Unknown},
		{"the server does not know", true, kerr.UnknownServerError, 1, history.Unknown},
	} {
		if got, _ := endOutcome(tc.commit, tc.err, tc.written); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A zombie's batch has what one of its client would have.
func TestTransactionalBatch(t *testing.T) {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(batch(encode(7), producer{5, 3}, 11)); err != nil {
		t.Fatal(err)
	}
	if b.ProducerID != 5 || b.ProducerEpoch != 3 || b.FirstSequence != 11 || b.Attributes != transactionalBatch {
		t.Errorf("%+v", b)
	}
	if err := b.ReadFrom(Batch(encode(7))); err != nil || b.ProducerID != -1 || b.Attributes != 0 {
		t.Errorf("a plain one: %v, %+v", err, b)
	}
}

// What is written by nobody but transactions has no other traffic, and each kind of it has
// topics to write to and to read.
func TestTopicsOfTransactions(t *testing.T) {
	e := New(Env{Log: history.NewRecorder(1, nil), Topics: Topics(true)})
	if got, want := len(e.plainly().Topics), len(Topics(false)); got != want {
		t.Errorf("%d topics for all, want %d", got, want)
	}
	for _, c := range e.Copiers() {
		if g := c.(*copiers); len(g.to) == 0 || len(g.topics()) != 1 {
			t.Errorf("copiers write to %v and read %v", g.to, g.topics())
		}
	}
	if got := len(e.Readers()) - len(e.plainly().Readers()); got != 2 {
		t.Errorf("%d readers of what is committed", got)
	}
}

// A marker is told from others, and from a record.
func TestMarkersAreKept(t *testing.T) {
	for key, want := range map[string]uint64{
		"\x00\x00\x00\x00": history.Marker(9, 4, false), "\x00\x00\x00\x01": history.Marker(9, 4, true),
		"\x00\x00\x00\x02": 0, "\x00\x01\x00\x00": 0, "": 0,
	} {
		r := &kgo.Record{Key: []byte(key), ProducerID: 9, ProducerEpoch: 4, Attrs: kgo.NewRecordAttrs(kgo.RecordAttrsOpts{Control: true})}
		if got := valueOf(r); got != want {
			t.Errorf("key %q: %s, want %s", key, history.TellValue(got), history.TellValue(want))
		}
	}
	if got := valueOf(&kgo.Record{Value: encode(7)}); got != 7 {
		t.Errorf("a record: %d", got)
	}
}
