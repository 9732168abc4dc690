package traffic

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/kaas-check/history"
)

func TestTornRecordsAreForeign(t *testing.T) {
	v := history.Value(12, 345)
	b := encode(v)
	if decode(b) != v {
		t.Fatal(decode(b))
	}
	for i := range b {
		torn := append([]byte{}, b...)
		torn[i] ^= 1
		if decode(torn) != 0 {
			t.Errorf("byte %d may be any", i)
		}
	}
	for _, other := range [][]byte{nil, b[1:], append(b, b...), []byte("hello")} {
		if decode(other) != 0 {
			t.Errorf("%q is taken", other)
		}
	}
}

// Only an answer that says that nothing was stored is a failure; the rest is unknown.
func TestOutcomes(t *testing.T) {
	answer := func(code int16) kmsg.Response {
		p := kmsg.NewProduceResponseTopicPartition()
		p.ErrorCode, p.BaseOffset = code, 7
		topic := kmsg.NewProduceResponseTopic()
		topic.Partitions = append(topic.Partitions, p)
		r := kmsg.NewPtrProduceResponse()
		r.Topics = append(r.Topics, topic)
		return r
	}
	for _, tc := range []struct {
		name string
		resp kmsg.Response
		err  error
		want history.Outcome
	}{
		{"acknowledged", answer(0), nil, history.OK},
		{"damaged", answer(kerr.CorruptMessage.Code), nil, history.Failed},
		{"too large", answer(kerr.MessageTooLarge.Code), nil, history.Failed},
		{"another leader", answer(kerr.NotLeaderForPartition.Code), nil, history.Unknown},
		{"the volume", answer(kerr.KafkaStorageError.Code), nil, history.Unknown},
		{"too late", answer(kerr.RequestTimedOut.Code), nil, history.Unknown},
		{"connection lost", nil, errors.New("EOF"), history.Unknown},
		{"not connected", nil, fmt.Errorf("x: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), history.Failed},
		{"lost while writing", nil, &net.OpError{Op: "write", Err: errors.New("reset")}, history.Unknown},
		{"nonsense", kmsg.NewPtrFetchResponse(), nil, history.Unknown},
	} {
		var text string
		got, offset := produced(tc.resp, tc.err, &text)
		if got != tc.want || (got == history.OK) != (offset == 7) || (got == history.OK) != (text == "") {
			t.Errorf("%s: %v, offset %d, %q", tc.name, got, offset, text)
		}
	}
}

func TestBatch(t *testing.T) {
	raw := Batch(encode(history.Value(1, 1)))
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	var r kmsg.Record
	if err := r.ReadFrom(b.Records); err != nil || decode(r.Value) != history.Value(1, 1) || int(b.Length) != len(raw)-12 {
		t.Errorf("%v, %q, length %d of %d", err, r.Value, b.Length, len(raw))
	}
}

// An idempotent producer must never hear that records are missing.
func TestLossIsTold(t *testing.T) {
	for err, want := range map[error]bool{kerr.OutOfOrderSequenceNumber: true, kerr.UnknownProducerID: true, kerr.NotLeaderForPartition: false, nil: false} {
		if toldOfLoss(err) != want {
			t.Errorf("%v: %v", err, !want)
		}
	}
}
