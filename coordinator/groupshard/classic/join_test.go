package classic

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestFirstMember(t *testing.T) {
	w := newWorld(t)
	w.state("Empty")
	j := w.join(JoinRequest{})
	w.state("PreparingRebalance")
	w.pass(delay - time.Millisecond)
	w.waits(j)
	w.pass(time.Millisecond)
	r := w.joined(j)
	if r.MemberID != "client-1" || r.Leader != r.MemberID || r.Generation != 1 || r.Protocol != "range" ||
		r.ProtocolType != "consumer" || len(r.Members) != 1 || r.Members[0].MemberID != r.MemberID || r.SkipAssignment {
		t.Fatalf("answer %+v", r)
	}
	w.state("CompletingRebalance")
	w.settle(r.MemberID)
	if m := w.kept.Members[0]; w.kept.Generation != 1 || w.kept.Leader != m.ID || string(m.Assignment) != "client-1@1" || m.Host != "/10.0.0.1" {
		t.Fatalf("stored %+v", w.kept)
	}
}

func TestMemberIDIsAskedFor(t *testing.T) {
	w := newWorld(t)
	id := w.fails(w.join(JoinRequest{RequireKnownID: true}), kerr.MemberIDRequired).MemberID
	if id != "client-1" || w.g.Idle() {
		t.Fatalf("ID %q, idle %v", id, w.g.Idle())
	}
	w.state("Empty")
	j := w.join(JoinRequest{MemberID: id, RequireKnownID: true})
	w.pass(delay)
	if r := w.joined(j); r.MemberID != id {
		t.Fatalf("answer %+v", r)
	}
	// A static member is known by its instance.
	j = w.join(JoinRequest{InstanceID: instance("i"), RequireKnownID: true})
	w.waits(j)
}

func TestPendingMemberIDEnds(t *testing.T) {
	w := newWorld(t)
	id := w.fails(w.join(JoinRequest{RequireKnownID: true}), kerr.MemberIDRequired).MemberID
	w.pass(session)
	w.fails(w.join(JoinRequest{MemberID: id}), kerr.UnknownMemberID)
	if !w.g.Idle() {
		t.Fatal("not idle")
	}
}

func TestRebalanceWaitsForPendingMember(t *testing.T) {
	for _, end := range []string{"joins", "leaves", "times out"} {
		w := newWorld(t)
		ids := w.stable("")
		id := w.fails(w.join(JoinRequest{RequireKnownID: true}), kerr.MemberIDRequired).MemberID
		w.state("Stable")
		j := w.join(JoinRequest{MemberID: ids[0]})
		w.waits(j)
		size := 1
		switch end {
		case "joins":
			w.join(JoinRequest{MemberID: id})
			size = 2
		case "leaves":
			w.is(w.g.Leave(w.now, []LeaveMember{{MemberID: id}})[0], nil)
			w.drain()
		case "times out":
			w.pass(session)
		}
		if r := w.joined(j); len(r.Members) != size {
			t.Fatalf("%s: %+v", end, r)
		}
	}
}

func TestJoinIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		r    JoinRequest
		want error
	}{
		"session too short":    {JoinRequest{SessionTimeout: time.Millisecond}, kerr.InvalidSessionTimeout},
		"session too long":     {JoinRequest{SessionTimeout: 2 * time.Hour}, kerr.InvalidSessionTimeout},
		"another type":         {JoinRequest{ProtocolType: "connect"}, kerr.InconsistentGroupProtocol},
		"no common protocol":   {JoinRequest{Protocols: protocols("other")}, kerr.InconsistentGroupProtocol},
		"unknown member":       {JoinRequest{MemberID: "nobody"}, kerr.UnknownMemberID},
		"unknown instance":     {JoinRequest{MemberID: "client-1", InstanceID: instance("x")}, kerr.UnknownMemberID},
		"another's instance":   {JoinRequest{MemberID: "client-1", InstanceID: instance("i")}, kerr.FencedInstanceID},
		"unknown, of instance": {JoinRequest{MemberID: "nobody", InstanceID: instance("i")}, kerr.FencedInstanceID},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stable("", "i")
			r := w.fails(w.join(c.r), c.want)
			if r.MemberID != c.r.MemberID || r.Generation != -1 {
				t.Fatalf("answer %+v", r)
			}
			w.state("Stable")
		})
	}
}

func TestEmptyGroupRefuses(t *testing.T) {
	w := newWorld(t)
	w.fails(w.join(JoinRequest{MemberID: "nobody"}), kerr.UnknownMemberID)
	r := JoinRequest{Token: w.token(), ProtocolType: "consumer", SessionTimeout: session}
	w.g.Join(w.now, r)
	w.drain()
	w.fails(r.Token, kerr.InconsistentGroupProtocol)
	if !w.g.Idle() {
		t.Fatal("not idle")
	}
}

func TestJoinAgainInStableGroup(t *testing.T) {
	for name, c := range map[string]struct {
		member    int
		protocols []string
		rebalance bool
	}{
		"follower unchanged": {1, []string{"range"}, false},
		"follower changed":   {1, []string{"range:t,u"}, true},
		"leader unchanged":   {0, []string{"range"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ids := w.stable("", "")
			j := w.join(JoinRequest{MemberID: ids[c.member], Protocols: protocols(c.protocols...)})
			if c.rebalance {
				w.waits(j)
				w.state("PreparingRebalance")
				w.is(w.g.Heartbeat(w.now, ids[1-c.member], nil, 1), kerr.RebalanceInProgress)
				return
			}
			if r := w.joined(j); r.Generation != 1 || r.Leader != ids[0] || len(r.Members) != 0 {
				t.Fatalf("answer %+v", r)
			}
			if got := w.synced(w.sync(SyncRequest{MemberID: ids[1], Generation: 1})); got != ids[1]+"@1" {
				t.Fatalf("assigned %q", got)
			}
		})
	}
}

func TestJoinAgainWhileCompleting(t *testing.T) {
	w := newWorld(t)
	a, b := w.join(JoinRequest{}), w.join(JoinRequest{})
	w.until(a)
	leader, follower := w.joined(a), w.joined(b)
	again := w.joined(w.join(JoinRequest{MemberID: leader.MemberID}))
	if again.Generation != 1 || len(again.Members) != 2 {
		t.Fatalf("answer %+v", again)
	}
	if r := w.joined(w.join(JoinRequest{MemberID: follower.MemberID})); len(r.Members) != 0 || r.Leader != leader.MemberID {
		t.Fatalf("answer %+v", r)
	}
	// With something else to say, everybody has to come again; whoever waits is told.
	s := w.sync(SyncRequest{MemberID: leader.MemberID, Generation: 1})
	j := w.join(JoinRequest{MemberID: follower.MemberID, Protocols: protocols("range:u")})
	w.waits(j)
	w.fails(s, kerr.RebalanceInProgress)
	w.state("PreparingRebalance")
	// The store that was under way is of no interest any more.
	w.stored(nil)
	w.state("PreparingRebalance")
	w.join(JoinRequest{MemberID: leader.MemberID})
	if r := w.joined(j); r.Generation != 2 {
		t.Fatalf("answer %+v", r)
	}
}

func TestSecondJoinEndsTheFirst(t *testing.T) {
	w := newWorld(t)
	id := w.fails(w.join(JoinRequest{RequireKnownID: true}), kerr.MemberIDRequired).MemberID
	first := w.join(JoinRequest{MemberID: id})
	second := w.join(JoinRequest{MemberID: id})
	w.fails(first, kerr.RebalanceInProgress)
	w.pass(delay)
	if r := w.joined(second); len(r.Members) != 1 {
		t.Fatalf("answer %+v", r)
	}
}

func TestProtocolIsVotedFor(t *testing.T) {
	for name, c := range map[string]struct {
		members [][]string
		want    string
	}{
		"the only common one": {[][]string{{"a", "b"}, {"c", "b"}, {"b", "d"}}, "b"},
		"the most votes":      {[][]string{{"a", "b"}, {"b", "a"}, {"b", "a"}}, "b"},
		"common ones only":    {[][]string{{"x", "a", "b"}, {"x", "b", "a"}, {"b", "a"}}, "b"},
		"a draw":              {[][]string{{"a", "b"}, {"b", "a"}}, "a"},
		"named twice":         {[][]string{{"a", "a", "b"}, {"b"}}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var ts []Token
			for _, ps := range c.members {
				ts = append(ts, w.join(JoinRequest{Protocols: protocols(ps...)}))
			}
			w.until(ts[0])
			for _, j := range ts {
				if r := w.joined(j); r.Protocol != c.want {
					t.Fatalf("protocol %q, want %q", r.Protocol, c.want)
				}
			}
		})
	}
}

func TestGroupSize(t *testing.T) {
	w := newWorld(t)
	w.cfg.MaxSize = 2
	w.reload()
	ids := w.stable("", "s")
	w.fails(w.join(JoinRequest{}), kerr.GroupMaxSizeReached)
	w.fails(w.join(JoinRequest{InstanceID: instance("other")}), kerr.GroupMaxSizeReached)
	// A static member that was restarted has its place.
	w.waits(w.join(JoinRequest{InstanceID: instance("s")}))
	w.stored(nil)
	w.state("Stable")
	// While the group rebalances, a new member may be quicker than an old one, which is
	// then turned away.
	w.join(JoinRequest{MemberID: ids[0], Protocols: protocols("range:u")})
	w.fails(w.join(JoinRequest{}), kerr.GroupMaxSizeReached)

	w = newWorld(t)
	w.cfg.MaxSize = 2
	w.reload()
	ids = w.stable("", "")
	w.join(JoinRequest{MemberID: ids[0]})
	quick := w.join(JoinRequest{})
	w.waits(quick)
	w.fails(w.join(JoinRequest{MemberID: ids[1]}), kerr.GroupMaxSizeReached)
	if r := w.joined(quick); r.Generation != 2 {
		t.Fatalf("answer %+v", r)
	}
}

func TestGroupThatIsTooLargeShrinks(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "s", "")
	w.cfg.MaxSize = 2
	w.reload()
	w.state("PreparingRebalance")
	a := w.join(JoinRequest{MemberID: ids[2]})
	w.fails(w.join(JoinRequest{MemberID: ids[0]}), kerr.GroupMaxSizeReached)
	w.join(JoinRequest{MemberID: ids[1], InstanceID: instance("s")})
	if r := w.joined(a); r.Generation != 2 || len(r.Members) != 2 {
		t.Fatalf("answer %+v", r)
	}
}

func TestTurnedAwayIsForgotten(t *testing.T) {
	w := newWorld(t)
	w.cfg.MaxSize = 1
	w.reload()
	id := w.fails(w.join(JoinRequest{RequireKnownID: true}), kerr.MemberIDRequired).MemberID
	w.stable("")
	w.fails(w.join(JoinRequest{MemberID: id}), kerr.GroupMaxSizeReached)
	// The rebalance does not wait for it.
	w.joined(w.join(JoinRequest{MemberID: w.g.leader}))
}

// Who tries again with the ID that it was given still has the time of a new member.
func TestNewMemberTriesAgain(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("")
	id := w.fails(w.join(JoinRequest{RequireKnownID: true}), kerr.MemberIDRequired).MemberID
	w.join(JoinRequest{MemberID: id})
	j := w.join(JoinRequest{MemberID: id})
	w.beat(2*session, ids[0])
	w.waits(j)
	w.join(JoinRequest{MemberID: ids[0]})
	w.joined(j)
}
