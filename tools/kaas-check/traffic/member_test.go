package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/tools/kaas-check/history"
)

// A commit has failed only where it was sent once at most, and the answer says so.
func TestCommitOutcomes(t *testing.T) {
	answer := func(code int16) *kmsg.OffsetCommitResponse {
		p := kmsg.NewOffsetCommitResponseTopicPartition()
		p.Partition, p.ErrorCode = 3, code
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
		r := kmsg.NewPtrOffsetCommitResponse()
		r.Topics = append(r.Topics, topic)
		return r
	}
	for _, tc := range []struct {
		name    string
		resp    *kmsg.OffsetCommitResponse
		err     error
		written int64
		want    history.Outcome
	}{
		{"acknowledged", answer(0), nil, 1, history.OK},
		{"acknowledged at last", answer(0), nil, 3, history.OK},
		{"old generation", answer(kerr.IllegalGeneration.Code), nil, 1, history.Failed},
		{"old generation, but sent before", answer(kerr.IllegalGeneration.Code), nil, 2, history.Unknown},
		{"stale epoch", answer(kerr.StaleMemberEpoch.Code), nil, 1, history.Failed},
		{"not the coordinator, perhaps no longer", answer(kerr.NotCoordinator.Code), nil, 1, history.Unknown},
		{"connection lost", nil, io.EOF, 1, history.Unknown},
		{"never sent", nil, fmt.Errorf("x: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), 0, history.Failed},
		{"no connection, but sent before", nil, &net.OpError{Op: "dial", Err: errors.New("refused")}, 1, history.Unknown},
		{"too late, and perhaps just sent", nil, context.DeadlineExceeded, 0, history.Unknown},
		{"another partition", kmsg.NewPtrOffsetCommitResponse(), nil, 1, history.Unknown},
	} {
		got, text := commitOutcome(tc.resp, "t", 3, tc.err, tc.written)
		if got != tc.want || (got == history.OK) != (text == "") {
			t.Errorf("%s: %v, %q", tc.name, got, text)
		}
	}
}

// A heartbeat counts from when it was sent, and only if it was answered well.
func TestHeartbeatsAreHeard(t *testing.T) {
	m := &Member{env: &Env{Log: history.NewRecorder(1, nil)}}
	m.Log(kgo.LogLevelDebug, "heartbeating", "group", "g")
	sent := m.beating.Load()
	m.Log(kgo.LogLevelDebug, "heartbeat complete", "group", "g", "err", nil)
	m.Log(kgo.LogLevelDebug, "heartbeating", "group", "g")
	m.Log(kgo.LogLevelDebug, "heartbeat complete", "group", "g", "err", kerr.UnknownMemberID)
	if got := m.heartbeat.Load(); sent == 0 || got != sent {
		t.Errorf("the last good one at %d, want %d", got, sent)
	}
}

// What a member had is told once it has it no more, and until its crash at most.
func TestOwnershipIsTold(t *testing.T) {
	env := &Env{Log: history.NewRecorder(1, nil), Topics: []Topic{{Name: "t", Partitions: 2}}}
	m := &Member{env: env, places: env.places(nil), proc: 1}
	m.mu.since = map[place]int64{}
	m.assigned(t.Context(), nil, map[string][]int32{"t": {0, 1}, "other": {0}})
	m.revoked(t.Context(), nil, map[string][]int32{"t": {0}})
	m.revoked(t.Context(), nil, map[string][]int32{"t": {0}}) // nothing is left of it
	m.crashed.Store(m.env.Log.Now())
	m.lost(t.Context(), nil, map[string][]int32{"t": {0, 1}})
	ops := env.Log.History().Ops
	if len(ops) != 2 || ops[0].Outcome != history.OK || ops[1].Outcome != history.Unknown || ops[1].Complete != m.crashed.Load() {
		t.Errorf("%+v", ops)
	}
}

// A member that has crashed has no connection, and gets none.
func TestCutWires(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := &wire{}
	conn, err := w.connect(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w.cut()
	if err := conn.SetDeadline(time.Now()); err == nil {
		t.Error("the connection is open")
	}
	if _, err := w.connect(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, errCut) {
		t.Errorf("connected again: %v", err)
	}
}
