package classic

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

// commits brings a group into each state; its static member is client-1's follower s-2.
var commits = map[string]func(w *world){
	"Empty": func(w *world) { w.g.Leave(w.now, []LeaveMember{{MemberID: "client-1"}, {InstanceID: instance("s")}}) },
	"PreparingRebalance": func(w *world) {
		w.join(JoinRequest{MemberID: "client-1"})
	},
	"CompletingRebalance": func(w *world) {
		w.join(JoinRequest{MemberID: "client-1"})
		w.join(JoinRequest{MemberID: "s-2", InstanceID: instance("s")})
	},
	"Stable": func(*world) {},
}

func TestMayCommit(t *testing.T) {
	type answers map[string]error // by state
	none := answers{}
	always := func(err error) answers {
		return answers{"Empty": err, "PreparingRebalance": err, "CompletingRebalance": err, "Stable": err}
	}
	// A generation of -2 stands for the current one, -3 for the one before it.
	for name, c := range map[string]struct {
		member, instance string
		generation       int32
		plain, txn       answers
	}{
		"an administrator": {"", "", -1, answers{
			"PreparingRebalance": kerr.UnknownMemberID, "CompletingRebalance": kerr.UnknownMemberID, "Stable": kerr.UnknownMemberID,
		}, none},
		"an outsider with an instance": {"", "x", -1, answers{
			"PreparingRebalance": kerr.UnknownMemberID, "CompletingRebalance": kerr.UnknownMemberID, "Stable": kerr.UnknownMemberID,
		}, answers{
			"PreparingRebalance": kerr.UnknownMemberID, "CompletingRebalance": kerr.UnknownMemberID, "Stable": kerr.UnknownMemberID,
		}},
		"unknown member":              {"nobody", "", -2, always(kerr.UnknownMemberID), always(kerr.UnknownMemberID)},
		"no member, but a generation": {"", "", -2, always(kerr.UnknownMemberID), always(kerr.UnknownMemberID)},
		"old generation": {"client-1", "", -3,
			answers{"Empty": kerr.UnknownMemberID, "PreparingRebalance": kerr.IllegalGeneration, "CompletingRebalance": kerr.IllegalGeneration, "Stable": kerr.IllegalGeneration},
			answers{"Empty": kerr.UnknownMemberID, "PreparingRebalance": kerr.IllegalGeneration, "CompletingRebalance": kerr.IllegalGeneration, "Stable": kerr.IllegalGeneration}},
		"member": {"client-1", "", -2,
			answers{"Empty": kerr.UnknownMemberID, "CompletingRebalance": kerr.RebalanceInProgress},
			answers{"Empty": kerr.UnknownMemberID}},
		"static member": {"s-2", "s", -2,
			answers{"Empty": kerr.UnknownMemberID, "CompletingRebalance": kerr.RebalanceInProgress},
			answers{"Empty": kerr.UnknownMemberID}},
		"another's instance": {"client-1", "s", -2,
			answers{"Empty": kerr.UnknownMemberID, "PreparingRebalance": kerr.FencedInstanceID, "CompletingRebalance": kerr.FencedInstanceID, "Stable": kerr.FencedInstanceID},
			answers{"Empty": kerr.UnknownMemberID, "PreparingRebalance": kerr.FencedInstanceID, "CompletingRebalance": kerr.FencedInstanceID, "Stable": kerr.FencedInstanceID}},
	} {
		for state, bring := range commits {
			t.Run(name+"/"+state, func(t *testing.T) {
				w := newWorld(t)
				w.stable("", "s")
				bring(w)
				w.drain()
				w.state(state)
				generation := c.generation
				switch generation {
				case -2:
					generation = w.g.Generation()
				case -3:
					generation = w.g.Generation() - 1
				}
				w.is(w.g.MayCommit(w.now, c.member, instance(c.instance), generation, false), c.plain[state])
				w.is(w.g.MayCommit(w.now, c.member, instance(c.instance), generation, true), c.txn[state])
			})
		}
	}
}

func TestCommitCountsAsHeartbeat(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("")
	for range 5 {
		w.pass(session / 2)
		w.is(w.g.MayCommit(w.now, ids[0], nil, 1, false), nil)
	}
	w.state("Stable")
	w.pass(session / 2)
	w.is(w.g.MayCommit(w.now, ids[0], nil, 1, true), nil)
	w.pass(session / 2)
	w.state("Empty")
}

func TestMayDelete(t *testing.T) {
	for state, bring := range commits {
		w := newWorld(t)
		w.stable("", "s")
		bring(w)
		w.drain()
		want := error(kerr.NonEmptyGroup)
		if state == "Empty" {
			want = nil
		}
		w.is(w.g.MayDelete(), want)
		w.is(w.g.MayDeleteOffsets(), nil) // a group of consumers
	}
}

func TestSubscribed(t *testing.T) {
	w := newWorld(t)
	if w.g.Subscribed("t") {
		t.Fatal("subscribed without members")
	}
	a := w.join(JoinRequest{Protocols: protocols("range:t")})
	b := w.join(JoinRequest{Protocols: protocols("range:t,u")})
	w.until(a)
	w.settle(w.joined(a).MemberID, w.joined(b).MemberID)
	w.reload()
	if !w.g.Subscribed("t") || !w.g.Subscribed("u") || w.g.Subscribed("v") {
		t.Fatal("not the topics that the members subscribe to")
	}
	w.pass(session)
	if w.g.Subscribed("t") {
		t.Fatal("subscribed without members")
	}
}

func TestSubscriptionCannotBeRead(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, subscription("topic")[:8], subscription("topic")[:7], {0, 0, 0, 0, 0, 1, 0xff, 0xff}} {
		w := newWorld(t)
		ps := protocols("range")
		ps[0].Metadata = b
		w.join(JoinRequest{Protocols: ps})
		w.pass(delay)
		if !w.g.Subscribed("any") {
			t.Fatalf("metadata %v: not taken to be subscribed", b)
		}
	}
}

func TestOffsetsOfAnotherType(t *testing.T) {
	w := newWorld(t)
	w.join(JoinRequest{ProtocolType: "connect"})
	w.pass(delay)
	w.is(w.g.MayDeleteOffsets(), kerr.NonEmptyGroup)
	if w.g.Subscribed("t") {
		t.Fatal("metadata of another type was read")
	}
}

func TestDescribe(t *testing.T) {
	w := newWorld(t)
	ids := w.stable("", "s")
	d := w.g.Describe()
	if d.State != "Stable" || d.ProtocolType != "consumer" || d.Protocol != "range" || len(d.Members) != 2 {
		t.Fatalf("described as %+v", d)
	}
	m := d.Members[1]
	if m.MemberID != ids[1] || *m.InstanceID != "s" || m.ClientID != "client" || m.Host != "/10.0.0.1" ||
		string(m.Assignment) != ids[1]+"@1" || len(m.Metadata) == 0 {
		t.Fatalf("described as %+v", m)
	}
	w.join(JoinRequest{MemberID: ids[0]})
	d = w.g.Describe()
	if m := d.Members[1]; d.State != "PreparingRebalance" || d.Protocol != "" || m.Assignment != nil || m.Metadata != nil {
		t.Fatalf("described as %+v", d)
	}
}
