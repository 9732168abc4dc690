package classic

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestStaticMemberComesBack(t *testing.T) {
	for name, c := range map[string]struct {
		instance string // that comes back; lead leads
		skip     bool
		leads    bool // is told that it leads
		members  int
	}{
		"follower":           {"follow", true, false, 0},
		"leader":             {"lead", true, true, 2},
		"leader, old client": {"lead", false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.stable("lead", "follow")
			old := ids[0]
			if c.instance == "follow" {
				old = ids[1]
			}
			j := w.join(JoinRequest{InstanceID: instance(c.instance), SkipAssignment: c.skip, ClientID: "new"})
			w.waits(j)
			w.stored(nil)
			w.state("Stable")
			r := w.joined(j)
			if r.Generation != 1 || r.MemberID == old || (r.Leader == r.MemberID) != c.leads ||
				len(r.Members) != c.members || r.SkipAssignment != c.leads {
				t.Fatalf("answer %+v", r)
			}
			// It goes on with what it had, also after an owner change.
			w.reload()
			s := w.sync(SyncRequest{MemberID: r.MemberID, InstanceID: instance(c.instance), Generation: 1})
			if got := w.synced(s); got != old+"@1" {
				t.Fatalf("assigned %q", got)
			}
			w.is(w.g.Heartbeat(w.now, r.MemberID, nil, 1), nil)
			w.is(w.g.Heartbeat(w.now, old, instance(c.instance), 1), kerr.FencedInstanceID)
			w.is(w.g.Heartbeat(w.now, old, nil, 1), kerr.UnknownMemberID)
			if m := w.g.Describe().Members; m[0].ClientID != "new" && m[1].ClientID != "new" {
				t.Fatalf("described as %+v", m)
			}
		})
	}
}

func TestStaticMemberComesBackChanged(t *testing.T) {
	for name, protocols := range map[string][]string{
		"other topics":  {"range:t,u"},
		"other choices": {"sticky", "range"}, // is not elected: the other supports range alone
		"reordered":     {"range", "sticky"},
	} {
		t.Run(name, func(t *testing.T) { comesBack(t, protocols, name == "other topics") })
	}
}

func comesBack(t *testing.T, ps []string, rebalances bool) {
	w := newWorld(t)
	w.stable("a", "b")
	j := w.join(JoinRequest{InstanceID: instance("b"), Protocols: protocols(ps...)})
	w.waits(j)
	if rebalances {
		w.state("PreparingRebalance")
		if len(w.stores) > 0 {
			t.Fatal("stored before the rebalance has ended")
		}
		return
	}
	w.state("Stable")
	w.stored(nil)
	w.joined(j)
}

// Another assignor is elected if the static member that comes back tips the scale.
func TestStaticMemberChangesTheVote(t *testing.T) {
	w := newWorld(t)
	a := w.join(JoinRequest{InstanceID: instance("a"), Protocols: protocols("x", "y")})
	b := w.join(JoinRequest{InstanceID: instance("b"), Protocols: protocols("y", "x")})
	w.until(a)
	w.settle(w.joined(a).MemberID, w.joined(b).MemberID)
	w.join(JoinRequest{InstanceID: instance("a"), Protocols: protocols("y", "x")})
	w.state("PreparingRebalance")
}

func TestStaticMemberOfAnotherTypeIsNotRead(t *testing.T) {
	w := newWorld(t)
	ps := protocols("p")
	j := w.join(JoinRequest{InstanceID: instance("a"), ProtocolType: "connect", Protocols: ps})
	w.pass(delay)
	w.settle(w.joined(j).MemberID)
	j = w.join(JoinRequest{InstanceID: instance("a"), ProtocolType: "connect", Protocols: protocols("p:changed")})
	w.stored(nil)
	w.joined(j)
	w.state("Stable")
}

func TestStaticMemberComesBackWhileRebalancing(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("a", "b")
	first := w.join(JoinRequest{MemberID: ids[0], InstanceID: instance("a")})
	w.state("PreparingRebalance")
	second := w.join(JoinRequest{InstanceID: instance("a")})
	if r := w.fails(first, kerr.FencedInstanceID); r.MemberID != ids[0] {
		t.Fatalf("answer %+v", r)
	}
	w.waits(second)
	third := w.join(JoinRequest{InstanceID: instance("b")})
	w.joined(second)
	r := w.joined(third)
	w.state("CompletingRebalance")
	// The leader may have the old ID in hand: all join again.
	s := w.sync(SyncRequest{MemberID: r.MemberID, Generation: 2})
	fourth := w.join(JoinRequest{InstanceID: instance("b")})
	w.fails(s, kerr.FencedInstanceID)
	w.waits(fourth)
	w.state("PreparingRebalance")
}

func TestReplacementIsNotStored(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("a", "b")
	j := w.join(JoinRequest{InstanceID: instance("b")})
	w.stored(errDisk)
	if r := w.fails(j, kerr.NotCoordinator); r.MemberID != "" {
		t.Fatalf("answer %+v", r)
	}
	w.state("Stable")
	// It comes again by its instance; the next owner knows it by either ID.
	j = w.join(JoinRequest{InstanceID: instance("b")})
	w.stored(nil)
	id := w.joined(j).MemberID
	if got := w.synced(w.sync(SyncRequest{MemberID: id, Generation: 1})); got != ids[1]+"@1" {
		t.Fatalf("assigned %q", got)
	}
}

func TestReplacementIsOvertaken(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("a", "b")
	first := w.join(JoinRequest{InstanceID: instance("b")})
	second := w.join(JoinRequest{InstanceID: instance("b")})
	w.fails(first, kerr.FencedInstanceID)
	w.stored(nil)
	w.waits(second)
	// A rebalance begins before the second is stored: the join waits for that.
	leader := w.join(JoinRequest{MemberID: ids[0]})
	w.stored(errDisk)
	if r := w.joined(second); r.Generation != 2 || r.Leader != w.joined(leader).MemberID {
		t.Fatalf("answer %+v", r)
	}
}

func TestStaticMemberStaysThroughRebalances(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "s")
	w.cfg.MaxSize = 100
	j := w.join(JoinRequest{MemberID: ids[0]})
	// Its heartbeats say that it lives, and it has not come yet.
	w.beat(rejoin, ids[1])
	r := w.joined(j)
	if len(r.Members) != 2 {
		t.Fatalf("answer %+v", r)
	}
	w.is(w.g.Heartbeat(w.now, ids[1], instance("s"), 1), kerr.IllegalGeneration)
	w.waits(w.join(JoinRequest{MemberID: ids[1], InstanceID: instance("s"), Protocols: protocols("range:u")}))
}

func TestNobodyOfStaticMembersComes(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("a", "b", "")
	w.is(w.g.Leave(w.now, []LeaveMember{{MemberID: ids[2]}})[0], nil)
	w.beat(rejoin+session, ids[:2]...)
	w.state("PreparingRebalance")
	w.pass(session)
	w.state("Empty")
	w.stored(nil)
	if w.kept.Generation != 2 || len(w.kept.Members) != 0 || w.kept.ProtocolType != "consumer" || w.kept.Leader != "" {
		t.Fatalf("stored %+v", w.kept)
	}
}

// A leader that is static and does not come back in time stays a member, and leads no more.
func TestStaticLeaderIsSlow(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("s", "")
	j := w.join(JoinRequest{MemberID: ids[1], Protocols: protocols("range:u")})
	w.beat(rejoin-session/2, ids[0])
	w.pass(session / 2)
	if r := w.joined(j); r.Leader != ids[1] || len(r.Members) != 2 {
		t.Fatalf("answer %+v", r)
	}
	w.beat(session-time.Millisecond, ids[1])
	if len(w.g.members) != 2 {
		t.Fatal("its session did not begin anew with the generation")
	}
}

// A rebalance that begins while a replacement is being stored takes its join over,
// however the store ends.
func TestRebalanceTakesOverReplacement(t *testing.T) {
	for _, err := range []error{nil, errDisk} {
		w := newWorld(t)
		ids := w.stable("", "", "s")
		j := w.join(JoinRequest{InstanceID: instance("s")})
		w.join(JoinRequest{MemberID: ids[0]})
		w.stored(err)
		w.waits(j)
		w.join(JoinRequest{MemberID: ids[1]})
		if r := w.joined(j); r.Generation != 2 {
			t.Fatalf("answer %+v", r)
		}
	}
}

func TestReplacementIsSlow(t *testing.T) {
	w := newWorld(t)
	w.stable("s")
	j := w.join(JoinRequest{InstanceID: instance("s")})
	w.pass(3 * session)
	w.stored(nil)
	w.joined(j)
	w.pass(session - time.Millisecond)
	w.state("Stable")
}

// The choice between equally popular assignors does not depend on who came first, which
// the next owner does not know.
func TestDrawIsKept(t *testing.T) {
	w := newWorld(t)
	b := w.join(JoinRequest{InstanceID: instance("b"), Protocols: protocols("x", "y")})
	a := w.join(JoinRequest{InstanceID: instance("a"), Protocols: protocols("y", "x")})
	w.until(a)
	w.settle(w.joined(b).MemberID, w.joined(a).MemberID)
	w.reload()
	j := w.join(JoinRequest{InstanceID: instance("a"), Protocols: protocols("y", "x")})
	w.stored(nil)
	if r := w.joined(j); r.Protocol != "x" || r.Leader != w.joined(b).MemberID {
		t.Fatalf("answer %+v", r)
	}
}

func TestSameTopics(t *testing.T) {
	g := &Group{protocolType: "consumer"}
	for _, c := range []struct {
		a, b []byte
		want bool
	}{
		{subscription("t", "u"), append(subscription("u", "t"), "newer"...), true},
		{subscription("t"), subscription("t", "u"), false},
		{[]byte("x"), []byte("x"), true},
		{[]byte("x"), subscription("t"), false},
		{subscription("t"), nil, false},
	} {
		if got := g.sameTopics(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
