package classic

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestInitialDelayIsLengthened(t *testing.T) {
	w := newWorld(t)
	a := w.join(JoinRequest{SessionTimeout: session, RebalanceTimeout: 8 * time.Second})
	var others []Token
	for range 4 { // one every 2 s: always one within the delay
		w.pass(2*time.Second - time.Millisecond)
		w.waits(a)
		others = append(others, w.join(JoinRequest{SessionTimeout: session, RebalanceTimeout: 8 * time.Second}))
	}
	w.pass(4 * time.Millisecond) // at most the rebalance timeout
	if r := w.joined(a); len(r.Members) != 5 {
		t.Fatalf("answer %+v", r)
	}
	for _, o := range others {
		w.joined(o)
	}
}

func TestNoInitialDelay(t *testing.T) {
	w := newWorld(t)
	w.cfg.InitialDelay = 0
	w.reload()
	a := w.join(JoinRequest{})
	w.pass(0)
	w.joined(a)
}

func TestMembersThatDoNotRejoinAreDropped(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "", "")
	j := w.join(JoinRequest{MemberID: ids[1], Protocols: protocols("range:u")})
	w.waits(j)
	w.beat(rejoin-time.Millisecond, ids[0], ids[2]) // alive, but they do not join
	w.waits(j)
	w.pass(time.Millisecond)
	r := w.joined(j)
	if r.Leader != ids[1] || r.Generation != 2 || len(r.Members) != 1 {
		t.Fatalf("answer %+v", r)
	}
	w.is(w.g.Heartbeat(w.now, ids[0], nil, 1), kerr.UnknownMemberID)
}

func TestRebalanceTimeoutIsTheLongest(t *testing.T) {
	w := newWorld(t)
	a := w.join(JoinRequest{SessionTimeout: session, RebalanceTimeout: 2 * rejoin})
	b := w.join(JoinRequest{})
	w.until(a)
	ids := []string{w.joined(a).MemberID, w.joined(b).MemberID}
	w.settle(ids...)
	j := w.join(JoinRequest{MemberID: ids[1], Protocols: protocols("range:u")})
	w.beat(2*rejoin-time.Millisecond, ids[0])
	w.waits(j)
	w.pass(time.Millisecond)
	w.joined(j)
}

func TestRebalanceTimeoutOfVersion0(t *testing.T) {
	w := newWorld(t)
	a := w.join(JoinRequest{SessionTimeout: session, RebalanceTimeout: -time.Millisecond})
	w.pass(delay)
	w.settle(w.joined(a).MemberID)
	if got := w.kept.Members[0].RebalanceTimeout; got != session {
		t.Fatalf("stored %v", got)
	}
}

func TestSessionEnds(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "")
	w.beat(3*session, ids[0])
	// The other is gone, and the group is to rebalance.
	w.is(w.g.Heartbeat(w.now, ids[1], nil, 1), kerr.UnknownMemberID)
	w.state("PreparingRebalance")
	w.is(w.g.Heartbeat(w.now, ids[0], nil, 1), kerr.RebalanceInProgress)
	if r := w.joined(w.join(JoinRequest{MemberID: ids[0]})); len(r.Members) != 1 {
		t.Fatalf("answer %+v", r)
	}
}

func TestAllSessionsEnd(t *testing.T) {
	w := newWorld(t)
	w.stable("", "s")
	w.pass(session)
	w.state("Empty")
	if w.g.Idle() {
		t.Fatal("idle before that is stored")
	}
	w.stored(nil)
	if !w.g.Idle() || w.kept.Generation != 2 {
		t.Fatalf("idle %v, stored %+v", w.g.Idle(), w.kept)
	}
	w.reload()
	w.state("Empty")
	j := w.join(JoinRequest{})
	w.pass(delay)
	if r := w.joined(j); r.Generation != 3 {
		t.Fatalf("answer %+v", r)
	}
}

func TestWaitingMembersDoNotTimeOut(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "")
	j := w.join(JoinRequest{MemberID: ids[1], Protocols: protocols("range:u")})
	w.beat(rejoin-time.Millisecond, ids[0]) // far longer than its session
	w.waits(j)
	w.join(JoinRequest{MemberID: ids[0]})
	w.joined(j)
	// Nor does who waits for its assignment.
	s := w.sync(SyncRequest{MemberID: ids[1], Generation: 2})
	w.beat(rejoin-time.Millisecond, ids[0])
	w.waits(s)
	lead := w.sync(SyncRequest{MemberID: ids[0], Generation: 2})
	w.pass(time.Hour) // a slow store
	w.waits(s, lead)
	w.stored(nil)
	w.synced(s)
	w.beat(session, ids...)
	w.state("Stable")
}

func TestNewMemberWaitsOnlySoLong(t *testing.T) {
	w := newWorld(t)
	old := w.join(JoinRequest{SessionTimeout: session, RebalanceTimeout: time.Hour})
	w.pass(delay)
	id := w.joined(old).MemberID
	w.settle(id)
	j := w.join(JoinRequest{})
	w.beat(firstJoin-time.Second, id)
	w.waits(j)
	w.beat(time.Second, id)
	if r := w.fails(j, kerr.UnknownMemberID); r.MemberID != "" {
		t.Fatalf("answer %+v", r)
	}
}

func TestLeaderChanges(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "", "")
	w.is(w.g.Leave(w.now, []LeaveMember{{MemberID: ids[0], Reason: "closed"}})[0], nil)
	w.drain()
	w.state("PreparingRebalance")
	b := w.join(JoinRequest{MemberID: ids[1]})
	c := w.join(JoinRequest{MemberID: ids[2]})
	if rb, rc := w.joined(b), w.joined(c); rb.Leader != rc.Leader || len(rb.Members)+len(rc.Members) != 2 {
		t.Fatalf("answers %+v, %+v", rb, rc)
	}
}

func TestMemberThatDoesNotSyncIsDropped(t *testing.T) {
	for name, c := range map[string]struct{ missing int }{"the leader": {0}, "a follower": {1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.join(JoinRequest{}), w.join(JoinRequest{})
			w.until(a)
			ids := []string{w.joined(a).MemberID, w.joined(b).MemberID}
			s := w.sync(SyncRequest{MemberID: ids[1-c.missing], Generation: 1})
			if c.missing == 1 {
				w.stored(nil)
				w.synced(s)
			}
			w.beat(rejoin-time.Millisecond, ids...)
			if c.missing == 0 {
				w.waits(s)
			}
			w.pass(time.Millisecond)
			w.state("PreparingRebalance")
			if c.missing == 0 {
				w.fails(s, kerr.RebalanceInProgress)
			}
			w.is(w.g.Heartbeat(w.now, ids[c.missing], nil, 1), kerr.UnknownMemberID)
			w.joined(w.join(JoinRequest{MemberID: ids[1-c.missing]}))
		})
	}
}

func TestOwnerChange(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "s")
	w.pass(session - time.Second)
	w.reload()
	w.state("Stable")
	w.pass(session - time.Second) // the sessions began anew
	w.is(w.g.Heartbeat(w.now, ids[0], nil, 1), nil)
	w.is(w.g.Heartbeat(w.now, ids[1], instance("s"), 1), nil)
	// A follower that joins again, unchanged, does not disturb anybody.
	w.joined(w.join(JoinRequest{MemberID: ids[1], InstanceID: instance("s")}))
	d := w.g.Describe()
	if d.Leader != ids[0] || d.Protocol != "range" || string(d.Members[0].Assignment) != ids[0]+"@1" {
		t.Fatalf("described as %+v", d)
	}
	w.pass(session)
	w.state("Empty")
}

func TestClosedGroup(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "")
	j := w.join(JoinRequest{MemberID: ids[0]})
	w.g.Close(w.now, kerr.NotCoordinator)
	w.drain()
	w.fails(j, kerr.NotCoordinator)
	w.state("Dead")
	w.fails(w.join(JoinRequest{}), kerr.CoordinatorNotAvailable)
	w.fails(w.sync(SyncRequest{MemberID: ids[0], Generation: 1}), kerr.CoordinatorNotAvailable)
	w.is(w.g.Heartbeat(w.now, ids[0], nil, 1), kerr.CoordinatorNotAvailable)
	w.is(w.g.Leave(w.now, []LeaveMember{{MemberID: ids[0]}})[0], kerr.CoordinatorNotAvailable)
	w.is(w.g.MayCommit(w.now, "", nil, -1, false), kerr.CoordinatorNotAvailable)
	w.is(w.g.MayDelete(), kerr.GroupIDNotFound)
	w.is(w.g.MayDeleteOffsets(), kerr.GroupIDNotFound)
	if _, ok := w.g.Deadline(); ok || w.g.Subscribed("t") || w.g.Idle() {
		t.Fatal("a closed group waits for something")
	}
}
