package server

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas.dev/kaas/coordinator/groupshard"
	"kaas.dev/kaas/coordinator/groupshard/classic"
	"kaas.dev/kaas/projections/groups"
)

// from is a field that there is from a version on.
func from[V any](version, since int16, v V) V {
	var none V
	if version < since {
		return none
	}
	return v
}

// Every version of JoinGroup says what it can, and is told what it can be told.
func TestJoinGroupEveryVersion(t *testing.T) {
	f := &fakeShard{}
	c, _, _ := dialFake(t, f, nil)
	inst, proto, kind, empty := "i1", "range", "consumer", ""
	for v := int16(0); v <= 9; v++ {
		f.join = classic.JoinAnswer{JoinResponse: classic.JoinResponse{MemberID: "m1", Generation: 7, ProtocolType: kind, Protocol: proto, Leader: "m1",
			SkipAssignment: true, Members: []classic.JoinMember{{MemberID: "m1", InstanceID: &inst, Metadata: []byte("x")}}}}
		req := &kmsg.JoinGroupRequest{Version: v, Group: "g", SessionTimeoutMillis: 10_000, RebalanceTimeoutMillis: 60_000, MemberID: "m0", InstanceID: &inst,
			ProtocolType: kind, Protocols: []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("x")}, {Name: "rr"}}, Reason: &proto}
		got := c.ask(req).(*kmsg.JoinGroupResponse)
		want := &kmsg.JoinGroupResponse{Version: v, Generation: 7, ProtocolType: from(v, 7, &kind), Protocol: &proto, LeaderID: "m1", SkipAssignment: v >= 9,
			MemberID: "m1", Members: []kmsg.JoinGroupResponseMember{{MemberID: "m1", InstanceID: from(v, 5, &inst), ProtocolMetadata: []byte("x")}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v, want %+v", v, got, want)
		}
		rebalance := time.Minute
		if v == 0 {
			rebalance = -time.Millisecond // not said: the session's
		}
		asked := f.last(t).(classic.JoinRequest)
		wanted := classic.JoinRequest{MemberID: "m0", InstanceID: from(v, 5, &inst), ClientID: "test", Host: "/127.0.0.1", Tenant: "127.0.0.1", ProtocolType: kind,
			Protocols:      []groups.Protocol{{Name: "range", Metadata: []byte("x")}, {Name: "rr", Metadata: []byte{}}},
			SessionTimeout: 10 * time.Second, RebalanceTimeout: rebalance, RequireKnownID: v >= 4, SkipAssignment: v >= 9, Reason: from(v, 8, proto)}
		if !reflect.DeepEqual(asked, wanted) {
			t.Errorf("version %d asks %+v, want %+v", v, asked, wanted)
		}
		f.join = classic.JoinAnswer{JoinResponse: classic.JoinResponse{MemberID: "made"}, Err: kerr.MemberIDRequired}
		got = c.ask(req).(*kmsg.JoinGroupResponse)
		want = &kmsg.JoinGroupResponse{Version: v, ErrorCode: 79, Generation: -1, MemberID: "made"}
		if v < 7 {
			want.Protocol = &empty
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("version %d, refused: %+v, want %+v", v, got, want)
		}
		f.join = classic.JoinAnswer{Err: kerr.UnknownMemberID}
		if got = c.ask(req).(*kmsg.JoinGroupResponse); got.MemberID != "m0" || got.ErrorCode != 25 {
			t.Errorf("version %d, unknown: %+v", v, got)
		}
	}
}

func TestSyncGroupEveryVersion(t *testing.T) {
	inst, proto, kind := "i1", "range", "consumer"
	f := &fakeShard{sync: classic.SyncAnswer{SyncResponse: classic.SyncResponse{ProtocolType: kind, Protocol: proto, Assignment: []byte("mine")}}}
	c, _, _ := dialFake(t, f, nil)
	for v := int16(0); v <= 5; v++ {
		req := &kmsg.SyncGroupRequest{Version: v, Group: "g", Generation: 3, MemberID: "m", InstanceID: &inst, ProtocolType: &kind, Protocol: &proto,
			GroupAssignment: []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "m", MemberAssignment: []byte("a")}, {MemberID: "n", MemberAssignment: []byte("b")}}}
		want := &kmsg.SyncGroupResponse{Version: v, ProtocolType: from(v, 5, &kind), Protocol: from(v, 5, &proto), MemberAssignment: []byte("mine")}
		if got := c.ask(req); !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v, want %+v", v, got, want)
		}
		wanted := classic.SyncRequest{MemberID: "m", InstanceID: from(v, 3, &inst), Generation: 3, ProtocolType: from(v, 5, &kind), Protocol: from(v, 5, &proto),
			Assignments: map[string][]byte{"m": []byte("a"), "n": []byte("b")}}
		if asked := f.last(t); !reflect.DeepEqual(asked, wanted) {
			t.Errorf("version %d asks %+v, want %+v", v, asked, wanted)
		}
	}
	unsaid := &kmsg.SyncGroupRequest{Version: 5, Group: "g", ProtocolType: &kind}
	if got := c.ask(unsaid).(*kmsg.SyncGroupResponse); got.ErrorCode != 23 {
		t.Errorf("without a protocol: error %d", got.ErrorCode)
	}
	f.sync = classic.SyncAnswer{Err: kerr.IllegalGeneration}
	if got := c.ask(&kmsg.SyncGroupRequest{Version: 3, Group: "g"}).(*kmsg.SyncGroupResponse); got.ErrorCode != 22 || len(got.MemberAssignment) != 0 {
		t.Errorf("refused: %+v", got)
	}
}

func TestHeartbeatEveryVersion(t *testing.T) {
	inst := "i1"
	f := &fakeShard{}
	c, _, _ := dialFake(t, f, nil)
	for v := int16(0); v <= 4; v++ {
		for _, err := range []error{nil, kerr.RebalanceInProgress, kerr.UnknownMemberID} {
			f.err = err
			got := c.ask(&kmsg.HeartbeatRequest{Version: v, Group: "g", Generation: 3, MemberID: "m", InstanceID: &inst}).(*kmsg.HeartbeatResponse)
			if got.ErrorCode != codeOf(err) {
				t.Errorf("version %d, %v: error %d", v, err, got.ErrorCode)
			}
			if asked, want := f.last(t), (beatCall{"g", "m", from(v, 3, &inst), 3}); !reflect.DeepEqual(asked, want) {
				t.Errorf("version %d asks %+v, want %+v", v, asked, want)
			}
		}
	}
}

// One member's error is the answer's up to version 2, and its own from version 3.
func TestLeaveGroupEveryVersion(t *testing.T) {
	f := &fakeShard{}
	c, _, _ := dialFake(t, f, nil)
	i1, why := "i1", "why"
	for v := int16(0); v <= 5; v++ {
		req := &kmsg.LeaveGroupRequest{Version: v, Group: "g", MemberID: "old", Members: []kmsg.LeaveGroupRequestMember{{MemberID: "m", Reason: &why}, {InstanceID: &i1}}}
		f.err, f.leave = nil, []error{kerr.FencedInstanceID, nil}
		wanted := leaveCall{{MemberID: "m", Reason: from(v, 5, why)}, {InstanceID: &i1}}
		if v < 3 {
			f.leave, wanted = f.leave[:1], leaveCall{{MemberID: "old"}}
		}
		got := c.ask(req).(*kmsg.LeaveGroupResponse)
		if asked := f.last(t); !reflect.DeepEqual(asked, wanted) {
			t.Errorf("version %d asks %+v, want %+v", v, asked, wanted)
		}
		if v < 3 && got.ErrorCode != 82 || v >= 3 && (got.ErrorCode != 0 || len(got.Members) != 2 || got.Members[0].ErrorCode != 82 || got.Members[1].ErrorCode != 0 ||
			got.Members[0].MemberID != "m" || *got.Members[1].InstanceID != i1) {
			t.Errorf("version %d: %+v", v, got)
		}
		f.leave, f.err = nil, kerr.UnknownMemberID // no such group
		got = c.ask(req).(*kmsg.LeaveGroupResponse)
		if v < 3 && got.ErrorCode != 25 || v >= 3 && (got.ErrorCode != 0 || len(got.Members) != 2 || got.Members[1].ErrorCode != 25) {
			t.Errorf("version %d, no group: %+v", v, got)
		}
	}
}

// Requests of one connection come to the coordinator in their order, one by one.
func TestGroupRequestsKeepTheirOrder(t *testing.T) {
	f := &fakeShard{leave: []error{nil}}
	c, _, id := dialFake(t, f, nil)
	const rounds = 50
	for range rounds {
		c.send(commitAsk(9, id).req)
		c.send(&kmsg.LeaveGroupRequest{Version: 0, Group: "g"})
	}
	for range 2 * rounds {
		c.receive()
	}
	for i, call := range f.calls {
		_, commits := call.(groupshard.Commit)
		if commits != (i%2 == 0) {
			t.Fatalf("call %d is %T", i, call)
		}
	}
}

// A member that hangs up has left if it said so before, though nobody reads the answers.
func TestMemberLeavesAndHangsUp(t *testing.T) {
	f := &fakeShard{hold: true, leave: []error{nil}}
	c, _, _ := dialFake(t, f, nil)
	c.send(&kmsg.JoinGroupRequest{Version: 5, Group: "g"}) // is not answered
	c.send(&kmsg.LeaveGroupRequest{Version: 0, Group: "g"})
	c.nc.Close()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		calls := slices.Clone(f.calls)
		f.mu.Unlock()
		if len(calls) == 2 {
			if _, left := calls[1].(leaveCall); !left {
				t.Fatalf("call %T", calls[1])
			}
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("the member does not leave: %d calls", len(calls))
		}
	}
}

// Who waits for a rebalance is sent to look for the coordinator when the broker stops.
func TestJoinEndsWithTheBroker(t *testing.T) {
	f := &fakeShard{hold: true}
	n := startNode(t, t.TempDir())
	b := &another{Backend: broker{n.broker}, shard: func(string) (groupShard, error) { return f, nil }}
	s, addr := serveWhole(t, b, n.server.clusterID)
	c := dial(t, addr[0])
	c.send(&kmsg.JoinGroupRequest{Version: 5, Group: "g"})
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		f.mu.Lock()
		asked := len(f.calls)
		f.mu.Unlock()
		if asked == 1 {
			break
		}
		if time.Since(began) > patience {
			t.Fatal("the member does not come to wait")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); s.Shutdown(ctx) }()
	_, body := c.receive()
	resp := &kmsg.JoinGroupResponse{Version: 5}
	c.decode(resp, body)
	<-done
	if resp.ErrorCode != 16 || ctx.Err() != nil {
		t.Errorf("at the stop: %+v", resp)
	}
}
